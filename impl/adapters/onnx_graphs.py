"""Whole models in the operators of ONNX, every parameter an input of its own name and shape."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from gnomon.impl.adapters.onnx_models import Attributes, attention_attributes
from gnomon.spec.configuration import Configuration
from gnomon.spec.shapes import parameter_shapes

OPSET = 24  # the newest whose Attention runtimes have a kernel for
ACTIVATIONS: Mapping[str, tuple[str, dict[str, str]]] = {
    "relu": ("Relu", {}),
    "gelu": ("Gelu", {}),
    "gelu_tanh": ("Gelu", {"approximate": "tanh"}),
    "silu": ("Swish", {}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """What fixes a graph: the model, the dtype, whether masks and caches are inputs, whether all steps are outputs."""

    configuration: Configuration
    dtype: str
    masked: bool = False
    cached: bool = False
    traced: bool = False

    def mask(self, layer: int) -> str:
        """The name of the mask that a layer reads, empty where the operator's causality is all that is needed."""
        window = self.configuration.window_of(layer)
        return f"mask_{window}" if self.masked or self.cached or window else ""


@dataclass
class Builder:
    """The nodes of one graph in their order, with the names that come in and go out."""

    variant: Variant
    nodes: list[NodeProto] = field(default_factory=list)
    constants: list[TensorProto] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)
    inputs: dict[str, Any] = field(default_factory=dict)
    presents: list[str] = field(default_factory=list)

    @property
    def c(self) -> Configuration:
        """The model's configuration."""
        return self.variant.configuration

    @cached_property
    def element(self) -> int:
        """The dtype as ONNX numbers it."""
        return int(helper.np_dtype_to_tensor_dtype(np.dtype(self.variant.dtype)))

    def node(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """The output of one more operator."""
        output = f"step_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [output], **attributes))
        return output

    def named(self, name: str, value: str) -> str:
        """The same value under a name that a trace has."""
        if not self.variant.traced:
            return value
        self.nodes.append(helper.make_node("Identity", [value], [name]))
        self.steps.append(name)
        return name

    def constant(self, value: float | list[int]) -> str:
        """A number in the model's dtype, or a shape."""
        name = f"constant_{len(self.constants)}"
        array = np.array(value, np.int64 if isinstance(value, list) else self.variant.dtype)
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def input(self, name: str, element: int | None = None) -> str:
        """An input of any shape, in the model's dtype unless another is given."""
        self.inputs[name] = helper.make_tensor_value_info(name, element or self.element, None)
        return name

    # The parts of a model.

    def linear(self, x: str, name: str, biased: bool) -> str:
        """xWᵀ + b."""
        product = self.node("MatMul", x, self.node("Transpose", f"{name}_weight", perm=[1, 0]))
        return self.node("Add", product, f"{name}_bias") if biased else product

    def norm(self, x: str, name: str) -> str:
        """The model's kind of norm."""
        if self.c.norm == "rms":
            return self.rms(x, name)
        bias = [f"{name}_bias"] if self.c.norm_shift else []
        return self.node("LayerNormalization", x, f"{name}_weight", *bias, axis=-1, epsilon=self.c.epsilon)

    def rms(self, x: str, name: str) -> str:
        """x over its root mean square, times the gain."""
        if self.c.norm_offset:
            return self.offset_rms(x, f"{name}_weight")
        return self.node("RMSNormalization", x, f"{name}_weight", axis=-1, epsilon=self.c.epsilon)

    def offset_rms(self, x: str, weight: str) -> str:
        """The same with one more than the weight, which 16 bits would round."""
        wide = TensorProto.FLOAT if self.variant.dtype == "float16" else self.element
        one = self.node("Cast", self.constant(1.0), to=wide)
        gain = self.node("Add", self.node("Cast", weight, to=wide), one)
        norm = self.node("RMSNormalization", self.node("Cast", x, to=wide), gain, axis=-1, epsilon=self.c.epsilon)
        return self.node("Cast", norm, to=self.element)

    def embedding(self) -> str:
        """The stream that enters the first block."""
        x = self.node("Gather", "token_embedding", self.input("tokens", TensorProto.INT64))
        if self.c.embedding_scaled:
            x = self.node("Mul", x, self.constant(math.sqrt(self.c.width)))
        x = self.placed(x)
        if self.c.segments:
            x = self.node("Add", x, self.node("Gather", "segment_embedding", self.constant([0])))
        return self.norm(x, "embedding_norm") if self.c.embedding_norm else x

    def placed(self, x: str) -> str:
        """Token vectors with what is added for their positions."""
        if self.c.position_kind == "sinusoidal":
            return self.node("Add", x, self.input("sinusoids"))
        if self.c.position_kind == "learned":
            rows = self.input("rows", TensorProto.INT64)
            return self.node("Add", x, self.node("Gather", "position_embedding", rows))
        return x

    def projected(self, x: str, layer: str, name: str, heads: int) -> str:
        """Queries, keys or values, heads side by side, their norm applied."""
        rows = self.linear(x, layer + name, self.c.qkv_bias)
        if name != "value" and self.c.query_key_norm == "width":
            rows = self.rms(rows, f"{layer}{name}_norm")
        if name != "value" and self.c.query_key_norm == "head":
            split = self.node("Reshape", rows, self.constant([0, 0, heads, self.c.head_width]))
            rows = self.node("Reshape", self.rms(split, f"{layer}{name}_norm"), self.constant([0, 0, -1]))
        return self.named(layer + name, rows)

    def rotated(self, rows: str, layer: str, name: str, heads: int) -> str:
        """Queries or keys turned by their positions."""
        if not self.c.rotated:
            return rows
        part = {} if self.c.rotated == self.c.head_width else {"rotary_embedding_dim": self.c.rotated}
        layout = int(self.c.rotary.layout == "interleaved")
        turned = self.node("RotaryEmbedding", rows, "cosines", "sines", num_heads=heads, interleaved=layout, **part)
        return self.named(f"{layer}rotated_{name}", turned)

    def mixed(self, layer: int, query: str, key: str, value: str) -> str:
        """The output of `Attention`, which takes and returns the cached keys and values too."""
        c, output, mask, names = self.c, f"mixed_{layer}", self.variant.mask(layer), (f"key_{layer}", f"value_{layer}")
        if mask:
            self.input(mask, TensorProto.BOOL)
        past = [self.input(f"past_{name}") for name in names] if self.variant.cached else []
        presents = [f"present_{name}" for name in names] if self.variant.cached else []
        self.presents += presents
        scale, cap = (c.score_divisor**-0.5 if c.score_divisor else None), c.score_cap or None
        numbers = attention_attributes(np.dtype(self.variant.dtype), c.causal and not mask, None, scale, cap)
        inputs = [query, key, value, mask, *past] if mask else [query, key, value]
        split: Attributes = {"q_num_heads": c.heads, "kv_num_heads": c.kv_heads}
        self.nodes.append(helper.make_node("Attention", inputs, [output, *presents], **split, **numbers))
        return self.named(f"layers.{layer}.mixed", output)

    def attention(self, x: str, layer: int) -> str:
        """What attention adds to the stream."""
        c, prefix = self.c, f"layers.{layer}."
        query, key, value = (
            self.projected(x, prefix, name, heads)
            for name, heads in (("query", c.heads), ("key", c.kv_heads), ("value", c.kv_heads))
        )
        query = self.rotated(query, prefix, "query", c.heads)
        key = self.rotated(key, prefix, "key", c.kv_heads)
        mixed = self.mixed(layer, query, key, value)
        return self.named(f"{prefix}attention_output", self.linear(mixed, f"{prefix}output", c.output_bias))

    def feed_forward(self, x: str, layer: int) -> str:
        """What the network adds to the stream."""
        c, prefix = self.c, f"layers.{layer}."
        up = self.linear(x, f"{prefix}up", c.feed_forward_bias)
        if c.gated:
            gate = self.activated(self.linear(x, f"{prefix}gate", c.feed_forward_bias))
            hidden = self.node("Mul", gate, up)
        else:
            hidden = self.activated(up)
        return self.named(f"{prefix}feed_forward_output", self.linear(hidden, f"{prefix}down", c.feed_forward_bias))

    def activated(self, x: str) -> str:
        """The activation of that name."""
        operator, attributes = ACTIVATIONS[self.c.activation]
        return self.node(operator, x, **attributes)

    def block(self, x: str, layer: int) -> str:
        """The stream after one more block."""
        stream = self.parallel(x, layer) if self.c.parallel else self.serial(x, layer)
        return self.named(f"layers.{layer}.stream", stream)

    def parallel(self, x: str, layer: int) -> str:
        """The stream and what both sublayers make of it."""
        prefix = f"layers.{layer}."
        one = self.named(f"{prefix}attention_input", self.norm(x, f"{prefix}attention_norm"))
        other = self.norm(x, f"{prefix}feed_forward_norm") if self.c.norms == 2 else one
        other = self.named(f"{prefix}feed_forward_input", other)
        both = self.node("Add", self.attention(one, layer), self.feed_forward(other, layer))
        return self.node("Add", both, x)

    def serial(self, x: str, layer: int) -> str:
        """The stream after attention, and then after the network."""
        attended = self.sublayer(x, layer, "attention", self.attention)
        return self.sublayer(self.named(f"layers.{layer}.attended", attended), layer, "feed_forward", self.feed_forward)

    def sublayer(self, x: str, layer: int, name: str, apply: Callable[[str, int], str]) -> str:
        """The stream after a sublayer, with the norms where they are placed."""
        prefix, placement = f"layers.{layer}.{name}", self.c.placement
        before = placement in ("pre", "sandwich")
        inward = self.named(f"{prefix}_input", self.norm(x, f"{prefix}_norm")) if before else x
        output = apply(inward, layer)
        if placement in ("sandwich", "after"):
            output = self.norm(output, f"{prefix}_{'post_norm' if before else 'norm'}")
        total = self.node("Add", x, output)
        return self.norm(total, f"{prefix}_norm") if placement == "post" else total

    def logits(self, x: str) -> str:
        """The unembedded stream."""
        c = self.c
        name = "token_embedding" if c.tied else "unembedding_weight"
        y = self.node("MatMul", x, self.node("Transpose", name, perm=[1, 0]))
        if c.unembedding_bias:
            y = self.node("Add", y, "unembedding_bias")
        if c.logit_scale != 1:
            y = self.node("Mul", y, self.constant(c.logit_scale))
        if c.logit_cap:
            cap = self.constant(c.logit_cap)
            y = self.node("Mul", self.node("Tanh", self.node("Div", y, cap)), cap)
        return self.named("logits", y)

    def output(self) -> str:
        """All of the model."""
        x = self.named("embedding", self.embedding())
        if self.c.rotated:
            self.input("cosines"), self.input("sines")
        for layer in range(self.c.layers):
            x = self.block(x, layer)
        x = self.named("final", self.norm(x, "final_norm") if self.c.final_norm else x)
        return self.logits(x) if self.c.output == "logits" else x


def graph(variant: Variant) -> ModelProto:
    """The model of that variant: its output first, then the caches, then the steps."""
    builder = Builder(variant)
    for name in parameter_shapes(variant.configuration):
        builder.input(name)
    names = dict.fromkeys([builder.output(), *builder.presents, *builder.steps])
    outputs = [helper.make_tensor_value_info(name, builder.element, None) for name in names]
    made = helper.make_graph(builder.nodes, "model", list(builder.inputs.values()), outputs, builder.constants)
    imports = [helper.make_opsetid("", OPSET)]
    return helper.make_model(made, opset_imports=imports, ir_version=helper.find_min_ir_version_for(imports))
