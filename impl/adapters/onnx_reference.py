"""The ONNX operators by the reference evaluator of ONNX, which is written in NumPy."""

from collections.abc import Mapping

import numpy as np
from onnx import ModelProto
from onnx.reference import ReferenceEvaluator

from gnomon.impl.adapters import onnx_models
from gnomon.impl.adapters.onnx_models import (
    KERNEL_OPSET,
    WINDOW_OPSET,
    Array,
    Evaluate,
    attend,
    attention_attributes,
)
from gnomon.impl.declaration import Declaration
from gnomon.spec.conventions import Conventions


def evaluator(model: ModelProto) -> Evaluate:
    """The evaluator of a model."""
    loaded = ReferenceEvaluator(model)

    def evaluate(inputs: Mapping[str, Array]) -> Array:
        # NumPy warns where an argument is not finite, though the result is then what it should be.
        with np.errstate(invalid="ignore", over="ignore"):
            output: Array = loaded.run(None, dict(inputs))[0]
        return output

    return evaluate


run = onnx_models.operator(evaluator)


def attention(
    query: Array,
    key: Array,
    value: Array,
    *,
    mask: Array | None = None,
    causal: bool = False,
    window: int | None = None,
    scale: float | None = None,
    softcap: float | None = None,
) -> Array:
    """The output of the operator `Attention`."""
    attributes = attention_attributes(causal, window, scale, softcap)
    opset = KERNEL_OPSET if window is None else WINDOW_OPSET
    return attend(run, query, key, value, mask, opset=opset, **attributes)


def multi_head_attention(
    x: Array,
    parameters: Mapping[str, Array],
    *,
    heads: int,
    kv_heads: int | None = None,
    mask: Array | None = None,
    causal: bool = False,
) -> Array:
    """The operator `Attention` between linear maps, splitting the heads itself."""
    shared = heads if kv_heads is None else kv_heads
    return onnx_models.multi_head_attention(
        run, x, parameters, heads=heads, kv_heads=shared, mask=mask, causal=causal
    )


def linear(x: Array, weight: Array, bias: Array | None = None) -> Array:
    """The operators `MatMul` and `Add`."""
    return onnx_models.linear(run, x, weight, bias)


def relu(x: Array) -> Array:
    """The operator `Relu`."""
    return run("Relu", x)


def gelu(x: Array) -> Array:
    """The operator `Gelu`."""
    return run("Gelu", x)


def gelu_tanh(x: Array) -> Array:
    """The operator `Gelu` by its approximation."""
    return run("Gelu", x, approximate="tanh")


def silu(x: Array) -> Array:
    """The operator `Swish`."""
    return run("Swish", x)


def softmax(logits: Array) -> Array:
    """The operator `Softmax`."""
    return run("Softmax", logits)


declaration = Declaration(
    dtypes=("float64", "float32", "float16"),
    conventions=Conventions(window="excluding-self"),
)
