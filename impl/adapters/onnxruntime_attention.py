"""The ONNX operators by ONNX Runtime on the CPU."""

from collections.abc import Mapping

import numpy as np
import onnxruntime
from onnx import ModelProto

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

ERRORS_ONLY = 3


def session(model: ModelProto) -> Evaluate:
    """An inference session on one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = ERRORS_ONLY
    loaded = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )

    def evaluate(inputs: Mapping[str, Array]) -> Array:
        output: Array = loaded.run(None, dict(inputs))[0]
        return output

    return evaluate


run = onnx_models.operator(session)


def written_out(mask: Array | None, queries: int) -> Array | None:
    """The same mask with a row for each query: the kernel spreads a mask over batch and heads only."""
    return None if mask is None else np.broadcast_to(mask, (*mask.shape[:-2], queries, mask.shape[-1]))


def function_body(
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
    """The operators that define `Attention` in the standard, which run where there is no kernel for it."""
    attributes = attention_attributes(causal, window, scale, softcap)
    return attend(run, query, key, value, mask, opset=WINDOW_OPSET, **attributes)


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
    """The output of the kernel for `Attention`, or of its definition where there is a window."""
    attributes = attention_attributes(causal, window, scale, softcap)
    opset = KERNEL_OPSET if window is None else WINDOW_OPSET
    given = written_out(mask, query.shape[-2])
    return attend(run, query, key, value, given, opset=opset, **attributes)


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
        run, x, parameters, heads=heads, kv_heads=shared, mask=written_out(mask, x.shape[1]), causal=causal
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
    dtypes=("float32", "float16"),
    conventions=Conventions(window="excluding-self"),
    paths={"attention": {"function body": function_body}},
)
