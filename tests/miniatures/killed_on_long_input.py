"""Attention that is killed for more than four keys, as by a crash or for want of memory."""

import os
import signal

from gnomon.impl.reference import numpy_reference

linear = numpy_reference.linear


def attention(query, key, value):
    if key.shape[-2] > 4:
        os.kill(os.getpid(), signal.SIGKILL)
    return numpy_reference.attention(query, key, value)
