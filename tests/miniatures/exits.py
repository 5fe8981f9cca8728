"""Attention that calls sys.exit."""

import sys

from gnomon.impl.reference import numpy_reference

linear = numpy_reference.linear


def attention(query, key, value):
    sys.exit(0)
