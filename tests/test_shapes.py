"""The parameters that are named are as many as are counted, by the specification, by NumPy and by transformers."""

from dataclasses import replace
from math import prod

import numpy as np
import pytest

from gnomon.impl.reference import numpy_reference
from gnomon.props.model_cases import ModelCase
from gnomon.spec.configuration import CONFIGURATIONS
from gnomon.spec.evaluators import Float64
from gnomon.spec.families import FAMILIES
from gnomon.spec.memory import cache_bytes
from gnomon.spec.model import model
from gnomon.spec.parameters import parameter_count
from gnomon.spec.shapes import parameter_shapes

MEMBERS = {
    family: ModelCase(family=family, layers=3, heads=6, kv_heads=2, head_width=4, window=2, widened=3).configuration
    for family in FAMILIES
}
EVERY = MEMBERS | CONFIGURATIONS
# What no family has, and what has to be counted all the same.
ODD = {
    "logits-without-a-table-of-their-own": replace(MEMBERS["gptj"], tied=True),
    "stream-of-an-untied-model": replace(MEMBERS["gptj"], output="stream"),
    "decoder-with-sandwiches": replace(MEMBERS["gemma2"], decoder_layers=2, query_key_norm="head"),
    "decoder-with-one-norm": replace(MEMBERS["falcon"], decoder_layers=2, query_key_norm="width"),
    "decoder-with-norms-after": replace(MEMBERS["olmo2"], decoder_layers=1),
}


@pytest.mark.parametrize(
    ("name", "c"), [*EVERY.items(), *ODD.items()], ids=lambda value: value if isinstance(value, str) else ""
)
def test_what_is_named_is_counted(name, c):
    named = sum(prod(shape) for shape in parameter_shapes(c).values())
    assert named == parameter_count(c) == numpy_reference.parameter_count(c)
    assert cache_bytes(c, 5, batch=3) == numpy_reference.cache_bytes(c, 5, batch=3)


@pytest.mark.parametrize("name", [name for name in CONFIGURATIONS if name != "2017"])
def test_transformers_counts_as_many_in_the_same_places(name):
    sizes = pytest.importorskip("gnomon.impl.adapters.transformers_sizes").sizes
    from gnomon.props.laboratories import by_hand

    theirs, ours = sizes(name, CONFIGURATIONS[name]), by_hand(CONFIGURATIONS[name])
    assert sum(theirs.values()) == sum(ours.values())
    assert [theirs[part] for part in ("attention", "feed-forward")] == [
        ours[part] for part in ("attention", "feed-forward")
    ]


def test_a_decoder_attends_twice():
    shapes = parameter_shapes(CONFIGURATIONS["2017"])
    decoder = {name.removeprefix("decoder.5.") for name in shapes if name.startswith("decoder.5.")}
    encoder = {name.removeprefix("layers.5.") for name in shapes if name.startswith("layers.5.")}
    attention = {f"{name}_weight" for name in ("query", "key", "value", "output")}
    assert decoder - encoder == {f"cross_{name}" for name in (*attention, "norm_weight", "norm_bias")}
    assert encoder < decoder
    assert shapes["decoder.0.cross_key_weight"] == (512, 512)


def test_a_model_with_a_decoder_is_not_run():
    c = replace(MEMBERS["encoder-2017"], decoder_layers=1)
    parameters = {name: np.ones(shape) for name, shape in parameter_shapes(c).items()}
    with pytest.raises(NotImplementedError, match="a decoder that reads an encoder"):
        model(Float64(), c, parameters, np.zeros((1, 1), np.int64))
    with pytest.raises(NotImplementedError, match="decoder here that reads an encoder"):
        numpy_reference.model(c, parameters)


@pytest.mark.parametrize(
    ("family", "change"), [("llama", {"norms": 4}), ("gemma2", {"placement": "pre"}), ("gemma2", {"norms": 2})]
)
def test_norms_that_contradict_their_placement_are_refused(family, change):
    with pytest.raises(ValueError, match="four norms"):
        replace(MEMBERS[family], **change)


def shrunk(c):
    """All that it is but its sizes."""
    rotary = replace(c.rotary, width=8 * c.rotary.width // c.head_width)
    kv_heads = 2 if c.kv_heads == c.heads else 1
    sizes = {"vocabulary": 5, "width": 16, "layers": 2, "heads": 2, "head_width": 8, "feed_forward": 4}
    return replace(c, kv_heads=kv_heads, rotary=rotary, **sizes)


@pytest.mark.parametrize("name", [name for name in CONFIGURATIONS if name != "2017"])
def test_a_named_model_can_be_run(name):
    c, rng = shrunk(CONFIGURATIONS[name]), np.random.default_rng(0)
    parameters = {n: rng.standard_normal(shape) for n, shape in parameter_shapes(c).items()}
    out = model(Float64(), c, parameters, np.array([[1, 4, 2]]))
    assert out.shape == (1, 3, 5 if c.output == "logits" else 16)
    assert np.isfinite(out).all()
    assert numpy_reference.model(c, parameters)(np.array([[1, 4, 2]])).shape == out.shape
