"""The ONNX operators by the reference evaluator of ONNX, which is written in NumPy."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx import ModelProto
from onnx.reference import ReferenceEvaluator

from gnomon.impl.adapters.onnx_models import Array, Evaluate, Operators
from gnomon.impl.declaration import Declaration
from gnomon.spec.conventions import Conventions


def evaluator(model: ModelProto) -> Evaluate:
    """The evaluator of a model."""
    loaded = ReferenceEvaluator(model)

    def evaluate(inputs: Mapping[str, Array]) -> Array:
        # NumPy warns where a number is not finite, though the result is then what it should be.
        with np.errstate(all="ignore"):
            outputs: Any = loaded.run(None, dict(inputs))
        return np.asarray(outputs[0])

    return evaluate


operators = Operators(evaluator)
attention = operators.attention
multi_head_attention = operators.multi_head_attention
linear = operators.linear
relu = operators.relu
gelu = operators.gelu
gelu_tanh = operators.gelu_tanh
silu = operators.silu
softmax = operators.softmax
layer_norm = operators.layer_norm
rms_norm = operators.rms_norm
embedding = operators.embedding
rope = operators.rope

declaration = Declaration(
    dtypes=("float64", "float32", "float16"),
    conventions=Conventions(
        window="excluding-self",
        alignment="top-left",
        empty_row="zeros",
        masked_key="leaks",
        masked_value="leaks",
    ),
)
