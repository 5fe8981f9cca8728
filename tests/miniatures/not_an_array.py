"""Attention that returns a list."""

from gnomon.impl.reference import numpy_reference


def attention(query, key, value):
    return numpy_reference.attention(query, key, value).tolist()
