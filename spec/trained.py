"""What clauses of kind `trained` share: the one dtype in which experiments train, and what that leaves unseen."""

from collections.abc import Mapping
from types import MappingProxyType

TRAINED_IN = "float32"  # what is learned does not hang on the format, and every training takes its time
UNSEEN = f"experiments train in {TRAINED_IN} alone"
UNTRAINED: Mapping[str, str] = MappingProxyType(dict.fromkeys(("float64", "bfloat16", "float16"), UNSEEN))
