"""The names of a model's parameters, with their shapes: `layers.0.query_weight`, `[heads·head_width, width]`."""

from gnomon.spec.configuration import Configuration

Shapes = dict[str, tuple[int, ...]]


def parameter_shapes(c: Configuration) -> Shapes:
    """Every parameter of the model, by name; weights are `[out, in]`, tables `[rows, width]`."""
    shapes = embedding_shapes(c)
    for layer in range(c.layers):
        shapes |= {f"layers.{layer}.{name}": shape for name, shape in block_shapes(c).items()}
    for layer in range(c.decoder_layers):
        shapes |= {f"decoder.{layer}.{name}": shape for name, shape in decoder_shapes(c).items()}
    return shapes | head_shapes(c)


def embedding_shapes(c: Configuration) -> Shapes:
    """The tables, and the norm on their sum."""
    tables = {"token": c.rows, "position": c.positions, "segment": c.segments}
    shapes: Shapes = {f"{name}_embedding": (rows, c.width) for name, rows in tables.items() if rows}
    return shapes | (norm_shapes(c, "embedding_norm") if c.embedding_norm else {})


def block_shapes(c: Configuration) -> Shapes:
    """One block, names without the layer."""
    shapes = attention_shapes(c)
    for name in ("up", "gate") if c.gated else ("up",):
        shapes |= _linear(name, c.feed_forward, c.width, c.feed_forward_bias)
    shapes |= _linear("down", c.width, c.feed_forward, c.feed_forward_bias)
    for name in block_norms(c):
        shapes |= norm_shapes(c, name)
    return shapes | _query_key_norms(c)


def decoder_shapes(c: Configuration) -> Shapes:
    """One block of a decoder that reads an encoder: a block, and a second attention with norms of its own."""
    crossing = attention_shapes(c) | _query_key_norms(c)
    shapes = block_shapes(c) | {f"cross_{name}": shape for name, shape in crossing.items()}
    for name in block_norms(c):
        if name.startswith("attention"):
            shapes |= norm_shapes(c, name.replace("attention", "cross"))
    return shapes


def attention_shapes(c: Configuration) -> Shapes:
    """The four projections of one attention."""
    query, shared = c.heads * c.head_width, c.kv_heads * c.head_width
    shapes: Shapes = {}
    for name, rows in (("query", query), ("key", shared), ("value", shared)):
        shapes |= _linear(name, rows, c.width, c.qkv_bias)
    return shapes | _linear("output", c.width, query, c.output_bias)


def block_norms(c: Configuration) -> tuple[str, ...]:
    """The norms of a block, by name; with only one it serves both sublayers."""
    usual = ("attention_norm", "feed_forward_norm")
    if c.placement == "sandwich":
        return (*usual, "attention_post_norm", "feed_forward_post_norm")
    return usual[: c.norms]


def head_shapes(c: Configuration) -> Shapes:
    """What follows the blocks."""
    shapes = norm_shapes(c, "final_norm") if c.final_norm else {}
    if c.output == "logits" and not c.tied:
        shapes["unembedding_weight"] = (c.rows, c.width)
    if c.output == "logits" and c.unembedding_bias:
        shapes["unembedding_bias"] = (c.rows,)
    return shapes | (_linear("pooler", c.width, c.width, True) if c.pooler else {})


def norm_shapes(c: Configuration, name: str) -> Shapes:
    """The gain and, in LayerNorm, the shift."""
    gain: Shapes = {f"{name}_weight": (c.width,)}
    return gain | ({f"{name}_bias": (c.width,)} if c.norm == "layer" and c.norm_shift else {})


def _query_key_norms(c: Configuration) -> Shapes:
    if not c.query_key_norm:
        return {}
    widths = {"query": c.heads * c.head_width, "key": c.kv_heads * c.head_width}
    return {f"{n}_norm_weight": ((w if c.query_key_norm == "width" else c.head_width),) for n, w in widths.items()}


def _linear(name: str, rows: int, columns: int, biased: bool) -> Shapes:
    weight: Shapes = {f"{name}_weight": (rows, columns)}
    return weight | ({f"{name}_bias": (rows,)} if biased else {})
