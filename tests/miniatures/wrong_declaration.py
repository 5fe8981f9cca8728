"""A module whose declaration is a dictionary."""

from gnomon.impl.reference import numpy_reference

attention = numpy_reference.attention
declaration = {"dtypes": ("float32",)}
