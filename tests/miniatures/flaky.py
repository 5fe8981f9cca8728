"""Attention that adds another number at every call."""

import itertools

from gnomon.impl.reference import numpy_reference

calls = itertools.count(1)


def attention(query, key, value):
    return numpy_reference.attention(query, key, value) + query.dtype.type(next(calls))
