"""Attention that never returns for more than four keys."""

from gnomon.impl.reference import numpy_reference

linear = numpy_reference.linear


def attention(query, key, value):
    while key.shape[-2] > 4:
        pass
    return numpy_reference.attention(query, key, value)
