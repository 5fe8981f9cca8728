"""Models of one operator, so that every ONNX runtime is asked the same questions."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, helper

Array = NDArray[Any]
Evaluate = Callable[[Mapping[str, Array]], Array]
Attributes = dict[str, Any]
KERNEL_OPSET = 24  # the newest whose Attention and Swish runtimes have kernels for
WINDOW_OPSET = 25  # the first whose Attention has windows


def model(name: str, dtypes: tuple[str, ...], opset: int, attributes: Attributes) -> ModelProto:
    """A graph of one node for inputs of these dtypes and any shapes."""
    elements = [helper.np_dtype_to_tensor_dtype(np.dtype(dtype)) for dtype in dtypes]
    names = [f"input_{i}" for i in range(len(dtypes))]
    inputs = [helper.make_tensor_value_info(*pair, None) for pair in zip(names, elements, strict=True)]
    output = helper.make_tensor_value_info("output", elements[0], None)
    node = helper.make_node(name, names, ["output"], **attributes)
    graph = helper.make_graph([node], name, inputs, [output])
    imports = [helper.make_opsetid("", opset)]
    # The oldest container for this opset, as runtimes lag behind the newest.
    return helper.make_model(graph, opset_imports=imports, ir_version=helper.find_min_ir_version_for(imports))


def attention_attributes(
    dtype: np.dtype[Any], causal: bool, window: int | None, scale: float | None, softcap: float | None
) -> Attributes:
    """The attributes of `Attention` that are set; its window counts the keys on each side of the query."""
    attributes: Attributes = {"is_causal": 1} if causal else {}
    if window is not None:
        attributes |= {"left_window_size": window, "right_window_size": window}
    return attributes | numbers(dtype, scale=scale, softcap=softcap)


def numbers(dtype: np.dtype[Any], **given: float | None) -> Attributes:
    """The attributes that are numbers, as far as they are given."""
    known = {name: float(value) for name, value in given.items() if value is not None}
    if dtype == np.float64 and any(float(np.float32(value)) != value for value in known.values()):
        raise NotImplementedError("an ONNX attribute is a float32 number and would round this one")
    return known


class Operators:
    """The operations of the interface by single ONNX operators in a runtime that loads models."""

    def __init__(self, load: Callable[[ModelProto], Evaluate]) -> None:
        @cache
        def loaded(name: str, dtypes: tuple[str, ...], opset: int, attributes: tuple[tuple[str, Any], ...]) -> Evaluate:
            return load(model(name, dtypes, opset, dict(attributes)))

        self._loaded = loaded

    def run(self, name: str, *arrays: Array, opset: int = KERNEL_OPSET, **attributes: Any) -> Array:
        """The output of an operator, whose model is loaded once per dtypes and attributes."""
        dtypes = tuple(str(array.dtype) for array in arrays)
        evaluate = self._loaded(name, dtypes, opset, tuple(sorted(attributes.items())))
        return evaluate({f"input_{i}": array for i, array in enumerate(arrays)})

    def attend(
        self, query: Array, key: Array, value: Array, mask: Array | None, opset: int, attributes: Attributes
    ) -> Array:
        """The output of `Attention` with the mask among its inputs where there is one."""
        inputs = (query, key, value) if mask is None else (query, key, value, mask)
        return self.run("Attention", *inputs, opset=opset, **attributes)

    def attention(
        self,
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
        """The output of `Attention`."""
        attributes = attention_attributes(query.dtype, causal, window, scale, softcap)
        opset = KERNEL_OPSET if window is None else WINDOW_OPSET
        return self.attend(query, key, value, mask, opset, attributes)

    def function_body(
        self,
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
        """The same in the opset whose `Attention` has no kernel and runs as the standard defines it."""
        attributes = attention_attributes(query.dtype, causal, window, scale, softcap)
        return self.attend(query, key, value, mask, WINDOW_OPSET, attributes)

    def multi_head_attention(
        self,
        x: Array,
        parameters: Mapping[str, Array],
        *,
        heads: int,
        kv_heads: int | None = None,
        mask: Array | None = None,
        causal: bool = False,
    ) -> Array:
        """`Attention` that splits the heads of three projections of x itself, projected back."""
        query, key, value = (
            self.linear(x, parameters[f"{name}_weight"], parameters.get(f"{name}_bias"))
            for name in ("query", "key", "value")
        )
        shared = heads if kv_heads is None else kv_heads
        split = {"q_num_heads": heads, "kv_num_heads": shared, "is_causal": int(causal)}
        joined = self.attend(query, key, value, mask, KERNEL_OPSET, split)
        return self.linear(joined, parameters["output_weight"], parameters.get("output_bias"))

    def linear(self, x: Array, weight: Array, bias: Array | None = None) -> Array:
        """The outputs of `MatMul` and `Add`."""
        product = self.run("MatMul", x, np.ascontiguousarray(weight.T))
        return product if bias is None else self.run("Add", product, bias)

    def relu(self, x: Array) -> Array:
        """The output of `Relu`."""
        return self.run("Relu", x)

    def gelu(self, x: Array) -> Array:
        """The output of `Gelu`."""
        return self.run("Gelu", x)

    def gelu_tanh(self, x: Array) -> Array:
        """The output of `Gelu` by its approximation."""
        return self.run("Gelu", x, approximate="tanh")

    def silu(self, x: Array) -> Array:
        """The output of `Swish`."""
        return self.run("Swish", x)

    def softmax(self, logits: Array) -> Array:
        """The output of `Softmax`."""
        return self.run("Softmax", logits)

    def layer_norm(self, x: Array, weight: Array, bias: Array | None = None, *, eps: float) -> Array:
        """The output of `LayerNormalization`."""
        arrays = (x, weight) if bias is None else (x, weight, bias)
        return self.run("LayerNormalization", *arrays, axis=-1, **numbers(x.dtype, epsilon=eps))

    def rms_norm(self, x: Array, weight: Array, *, eps: float) -> Array:
        """The output of `RMSNormalization`."""
        return self.run("RMSNormalization", x, weight, axis=-1, **numbers(x.dtype, epsilon=eps))

    def rope(
        self,
        x: Array,
        positions: Array,
        *,
        base: float = 10000.0,
        rotary_width: int | None = None,
        layout: str = "half",
    ) -> Array:
        """The output of `RotaryEmbedding`, which is given cosines and sines."""
        width = rotary_width or x.shape[-1]
        angles = positions[..., None] * base ** (-np.arange(0, width, 2) / width)
        angles = np.broadcast_to(angles, (x.shape[0], *angles.shape[-2:]))
        attributes = {"interleaved": 1} if layout == "interleaved" else {}
        attributes |= {} if width == x.shape[-1] else {"rotary_embedding_dim": width}
        tables = (table(angles).astype(x.dtype) for table in (np.cos, np.sin))
        return self.run("RotaryEmbedding", x, *tables, **attributes)

    def embedding(self, table: Array, ids: Array) -> Array:
        """The output of `Gather`."""
        return self.run("Gather", table, ids)
