"""Models of one operator, so that every ONNX runtime is asked the same question."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, helper

Array = NDArray[Any]
Evaluate = Callable[[Mapping[str, Array]], Array]
KERNEL_OPSET = 24  # the newest whose Attention and Swish runtimes offer as kernels
WINDOW_OPSET = 25  # the first whose Attention has windows


class Operator(Protocol):
    """Runs one ONNX operator on arrays."""

    def __call__(self, name: str, *arrays: Array, opset: int = KERNEL_OPSET, **attributes: Any) -> Array:
        """The first output of the operator."""


def model(name: str, dtypes: tuple[str, ...], opset: int, attributes: Mapping[str, Any]) -> ModelProto:
    """A graph of one node for inputs of these dtypes and any shapes."""
    elements = [helper.np_dtype_to_tensor_dtype(np.dtype(dtype)) for dtype in dtypes]
    names = [f"input_{i}" for i in range(len(dtypes))]
    inputs = [
        helper.make_tensor_value_info(n, element, None) for n, element in zip(names, elements, strict=True)
    ]
    output = helper.make_tensor_value_info("output", elements[0], None)
    node = helper.make_node(name, names, ["output"], **attributes)
    graph = helper.make_graph([node], name, inputs, [output])
    # The oldest container for this opset: runtimes lag behind the newest.
    imports = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=imports, ir_version=helper.find_min_ir_version_for(imports))


def operator(load: Callable[[ModelProto], Evaluate]) -> Operator:
    """The operators of a runtime that loads models, each loaded once per dtypes and attributes."""

    @cache
    def loaded(
        name: str, dtypes: tuple[str, ...], opset: int, attributes: tuple[tuple[str, Any], ...]
    ) -> Evaluate:
        return load(model(name, dtypes, opset, dict(attributes)))

    def run(name: str, *arrays: Array, opset: int = KERNEL_OPSET, **attributes: Any) -> Array:
        dtypes = tuple(str(array.dtype) for array in arrays)
        evaluate = loaded(name, dtypes, opset, tuple(sorted(attributes.items())))
        return evaluate({f"input_{i}": array for i, array in enumerate(arrays)})

    return run


def attention_attributes(
    causal: bool, window: int | None, scale: float | None, softcap: float | None
) -> dict[str, Any]:
    """The attributes of `Attention` that are set; its window counts the keys on each side of the query."""
    attributes: dict[str, Any] = {"is_causal": 1} if causal else {}
    if window is not None:
        attributes |= {"left_window_size": window, "right_window_size": window}
    if scale is not None:
        attributes["scale"] = float(scale)
    if softcap is not None:
        attributes["softcap"] = float(softcap)
    return attributes


def attend(
    run: Operator,
    query: Array,
    key: Array,
    value: Array,
    mask: Array | None,
    *,
    opset: int = KERNEL_OPSET,
    **attributes: Any,
) -> Array:
    """The output of `Attention` with these arguments."""
    arrays = (query, key, value) if mask is None else (query, key, value, mask)
    return run("Attention", *arrays, opset=opset, **attributes)


def linear(run: Operator, x: Array, weight: Array, bias: Array | None) -> Array:
    """The affine map x·Wᵀ + b by `MatMul` and `Add`."""
    product = run("MatMul", x, np.ascontiguousarray(weight.T))
    return product if bias is None else run("Add", product, bias)


def multi_head_attention(
    run: Operator,
    x: Array,
    parameters: Mapping[str, Array],
    *,
    heads: int,
    kv_heads: int,
    mask: Array | None,
    causal: bool,
) -> Array:
    """`Attention` that splits the heads of three projections of x itself, projected back."""
    query, key, value = (
        linear(run, x, parameters[f"{name}_weight"], parameters.get(f"{name}_bias"))
        for name in ("query", "key", "value")
    )
    split = {"q_num_heads": heads, "kv_num_heads": kv_heads, "is_causal": int(causal)}
    joined = attend(run, query, key, value, mask, **split)
    return linear(run, joined, parameters["output_weight"], parameters.get("output_bias"))
