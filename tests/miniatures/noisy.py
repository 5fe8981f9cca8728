"""Right attention that talks on both streams, also past Python."""

import os
import sys

from gnomon.impl.reference import numpy_reference

print("noise of the import")


def attention(query, key, value):
    print("noise on the output")
    print("noise on the error stream", file=sys.stderr)
    os.write(1, b"noise past Python\n")
    return numpy_reference.attention(query, key, value)
