"""Attention that reads where nothing is for more than four keys."""

import ctypes

from gnomon.impl.reference import numpy_reference

linear = numpy_reference.linear


def attention(query, key, value):
    if key.shape[-2] > 4:
        ctypes.string_at(0)
    return numpy_reference.attention(query, key, value)
