"""The whole plate: token ids, vectors, positions, blocks, a last norm, logits."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from gnomon.spec import masks
from gnomon.spec.block import Mark, block, norm, score_scale, unmarked
from gnomon.spec.configuration import Configuration
from gnomon.spec.constants import Constant, exactly
from gnomon.spec.embedding import embedding
from gnomon.spec.evaluators import Evaluator, Mask, Quantity
from gnomon.spec.linear import linear
from gnomon.spec.order import sinusoidal_positions

Tokens = npt.NDArray[np.int64]


def model(
    E: Evaluator,
    c: Configuration,
    parameters: Mapping[str, Any],
    tokens: Tokens,
    *,
    positions: Any = None,
    mask: Mask | None = None,
    scale: Constant | None = None,
    mapping: str = "grouped",
    mark: Mark = unmarked,
) -> Quantity:
    """Logits `[batch, time, vocabulary]` of every position, or the last stream where that is the declared output.

    tokens `[batch, time]`; parameters as `gnomon.spec.shapes` names them; positions `[batch, time]`, 0, 1, 2, … if not
    given; mask `[batch, time]`, true for real tokens, or `[batch, time, time]`, true where a query may attend.
    """
    if c.decoder_layers:
        raise NotImplementedError("the equation of a decoder that reads an encoder is not written here")
    where = np.broadcast_to(np.arange(tokens.shape[1]) if positions is None else np.asarray(positions), tokens.shape)
    stream = mark("embedding", embedded(E, c, parameters, tokens, where))
    for layer in range(c.layers):
        stream = block(
            E, c, stream, layer_parameters(parameters, layer), positions=where,
            allowed=permitted(c, layer, tokens.shape[1], mask), scale=score_scale(c) or scale, mapping=mapping,
            mark=_of_layer(mark, layer),
        )  # fmt: skip
    final = mark("final", norm(E, c, stream, parameters, "final_norm")) if c.final_norm else stream
    return mark("logits", unembedded(E, c, parameters, final)) if c.output == "logits" else final


def _of_layer(mark: Mark, layer: int) -> Mark:
    return lambda name, value: mark(f"layers.{layer}.{name}", value)


def layer_parameters(parameters: Mapping[str, Any], layer: int) -> dict[str, Any]:
    """The parameters of one block, names without the layer."""
    prefix = f"layers.{layer}."
    return {name.removeprefix(prefix): p for name, p in parameters.items() if name.startswith(prefix)}


def embedded(E: Evaluator, c: Configuration, parameters: Mapping[str, Any], tokens: Tokens, positions: Any) -> Quantity:
    """The stream that enters the first block."""
    stream = embedding(E, parameters["token_embedding"], tokens)
    if c.embedding_scaled:
        stream = E.store(stream * E.constant(Constant(Fraction(1), Fraction(c.width))), "stream")
    if c.position_kind == "learned":
        rows = embedding(E, parameters["position_embedding"], positions + c.position_offset)
        stream = E.store(stream + rows, "stream")
    if c.position_kind == "sinusoidal":
        stream = E.store(stream + sinusoidal_positions(E, positions, c.width), "stream")
    if c.segments:
        stream = E.store(stream + E.number(parameters["segment_embedding"])[0], "stream")
    return norm(E, c, stream, parameters, "embedding_norm") if c.embedding_norm else stream


def permitted(c: Configuration, layer: int, time: int, mask: Mask | None) -> Mask | None:
    """Where the queries of a layer may attend, `[batch or 1, 1, time, time]`; nothing is forbidden in `None`."""
    allowed = np.ones((1, 1, time, time), bool)
    if mask is not None:
        allowed = allowed & (mask[:, None, None, :] if mask.ndim == 2 else mask[:, None])
    if c.causal:
        allowed = allowed & masks.causal(time, time, "bottom-right")
    if c.window_of(layer):
        allowed = allowed & masks.window(time, time, c.window_of(layer), "bottom-right")
    return None if allowed.all() else allowed


def unembedded(E: Evaluator, c: Configuration, parameters: Mapping[str, Any], final: Quantity) -> Quantity:
    """The product with the rows that stand for tokens, then the declared scale, then the declared cap."""
    table = parameters["token_embedding" if c.tied else "unembedding_weight"][: c.vocabulary]
    bias = parameters["unembedding_bias"][: c.vocabulary] if c.unembedding_bias else None
    logits = linear(E, final, table, bias)
    if c.logit_scale != 1:
        logits = E.store(logits * E.constant(exactly(c.logit_scale)), "logits")
    if c.logit_cap:
        cap = E.constant(exactly(c.logit_cap))
        logits = E.store(E.store(E.tanh(E.store(logits / cap, "logits")), "logits") * cap, "logits")
    return logits
