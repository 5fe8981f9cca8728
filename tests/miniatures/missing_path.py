"""A declaration of a path that is not there."""

from gnomon.impl import Declaration
from gnomon.impl.reference import numpy_reference

attention = numpy_reference.attention
declaration = Declaration(paths={"attention": {"fast": "fast_attention"}})
