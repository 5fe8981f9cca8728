"""Cases of whole models: a member of a family, its parameters off their defaults, and token ids."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Self

import numpy as np
from hypothesis import strategies as st

from gnomon.impl.declaration import Held
from gnomon.props.cases import HEADS, SEEDS, Case, MalformedCase, Strategy
from gnomon.props.outcome import Declined
from gnomon.props.subject import Subject
from gnomon.spec.bounds import round_to
from gnomon.spec.configuration import Configuration
from gnomon.spec.evaluators import Floats
from gnomon.spec.families import FAMILIES, member
from gnomon.spec.model import Tokens
from gnomon.spec.precision import Format
from gnomon.spec.shapes import parameter_shapes

# ordinary: vectors of order one. tiny: so small that epsilon counts. sharp: scores that single a key out.
MODEL_REGIMES = ("ordinary", "tiny", "sharp")
_SMALL, _SHARP = 2.0**-8, 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCase(Case):
    """A member of a family with drawn parameters, and a batch of token ids."""

    family: str = "llama"
    layers: int = 1
    heads: int = 1
    kv_heads: int = 1
    head_width: int = 2
    feed_forward: int = 3
    vocabulary: int = 7
    widened: int = 0
    window: int = 1
    base: int = 10000
    batch: int = 1
    time: int = 1

    @property
    def configuration(self) -> Configuration:
        """The member of the family with these sizes."""
        return member(
            self.family, vocabulary=self.vocabulary, layers=self.layers, heads=self.heads, kv_heads=self.kv_heads,
            head_width=self.head_width, feed_forward=self.feed_forward, base=float(self.base), window=self.window,
            widened=self.widened,
        )  # fmt: skip

    def plain(self) -> Self:
        """The member of customary proportions: as wide as its heads, a network four times as wide, the usual base."""
        narrow = replace(self, widened=0, base=10000)
        return replace(narrow, feed_forward=4 * narrow.configuration.width)

    def parameters(self, form: Format) -> dict[str, Floats]:
        """Every parameter by its name, exact in the format."""
        return drawn_parameters(self.configuration, self.seed, self.regime, form)

    def tokens(self) -> Tokens:
        """Token ids `[batch, time]`."""
        return np.random.default_rng((self.seed, 7)).integers(0, self.vocabulary, (self.batch, self.time))

    def stream(self, form: Format) -> Floats:
        """A stream `[batch, time, width]`."""
        x = np.random.default_rng((self.seed, 9)).standard_normal((self.batch, self.time, self.configuration.width))
        return round_to(x * (_SMALL if self.regime == "tiny" else 1.0), form)


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedCase(ModelCase):
    """Token ids alone, for a model that is there with parameters of its own."""

    held: Held | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        told = (f"{name}={getattr(self, name)}" for name in ("seed", "batch", "time", "vocabulary"))
        return ",".join(["fixed", *told])

    def plain(self) -> Self:
        """The case; its model is there."""
        return self

    @property
    def configuration(self) -> Configuration:
        """That of the model."""
        if self.held is None:
            raise MalformedCase("a case that begins with fixed is one of a black box: gnomon check-model judges it")
        return self.held.shape


def of_subject(case: Case, subject: Subject) -> Case:
    """The case for the subject, which has to be one of its kind: only a black box has ids without parameters."""
    if isinstance(case, FixedCase) != (subject.fixed is not None):
        raise MalformedCase("a case that begins with fixed is one of a black box, and a black box has no others")
    held = subject.fixed
    if not isinstance(case, FixedCase) or held is None:
        return case
    if 0 < held.context < case.time:
        raise MalformedCase(f"the case has {case.time} tokens and the model takes {held.context}")
    return replace(case, held=held, layers=held.shape.layers, vocabulary=held.ids)


def drawn_parameters(c: Configuration, seed: int, regime: str, form: Format) -> dict[str, Floats]:
    """Weights of order one over the root of their inputs; gains, shifts and biases off their defaults."""
    rng = np.random.default_rng((seed, 6))
    return {n: round_to(_drawn(rng, n, s, c, regime), form) for n, s in parameter_shapes(c).items()}


def _drawn(rng: np.random.Generator, name: str, shape: tuple[int, ...], c: Configuration, regime: str) -> Floats:
    x, kind = rng.standard_normal(shape), name.rpartition(".")[2]
    if kind.endswith("embedding"):
        return x * (_SMALL if regime == "tiny" else 1.0)
    if kind.endswith("bias"):
        return x * (_SMALL if regime == "tiny" else 0.5)
    if len(shape) == 1:
        return x * 0.25 + (0.0 if c.norm_offset else 1.0)
    sharp = _SHARP if regime == "sharp" and kind in ("query_weight", "key_weight") else 1.0
    return np.asarray(x * sharp / np.sqrt(shape[1]))


def model_cases(
    where: Callable[[Configuration], bool] = lambda c: True, *, favour: Sequence[str] = (), deep: bool = False,
    **given: Any,
) -> Callable[[Subject], Strategy]:  # fmt: skip
    """A strategy for the families that a subject declares and the condition admits; a keyword fixes a field.

    favour: families that are drawn about as often as all others, since only they can show some mistake. deep: where
    cases have one layer, a black box of several is asked as well.
    """

    def strategy(subject: Subject) -> Strategy:
        if subject.fixed is not None:
            return _fixed_cases(subject.fixed, where, given, deep)
        families = [f for f in subject.implementation.declaration.families if where(example(f))]
        if not families:
            raise Declined("it declares no family of models for which this clause says anything")
        pairs, favoured = given.get("pairs", HEADS), [f for f in families if f in favour]
        often = favoured * (len(families) // len(favoured)) if favoured else []
        shapes = st.sampled_from([(f, h, k) for f in [*families, *often] for h, k in pairs if _fits(f, h, k)])
        usual = {**_USUAL, "head_width": st.sampled_from((2, 4, 6, 8))} | {
            n: v if isinstance(v, st.SearchStrategy) else st.just(v) for n, v in given.items() if n != "pairs"
        }
        return st.builds(lambda shape, **rest: _case(*shape, **rest), shapes, **usual)

    return strategy


_USUAL: dict[str, Strategy] = {
    "regime": st.sampled_from(MODEL_REGIMES),
    "seed": SEEDS,
    "layers": st.sampled_from((2, 1, 3)),
    "feed_forward": st.sampled_from((3, 5, 8, 16)),
    "vocabulary": st.sampled_from((7, 11, 16)),
    "widened": st.sampled_from((0, 2, 4)),
    "window": st.sampled_from((2, 3, 4, 1)),
    "base": st.sampled_from((10000, 100, 500000)),
    "batch": st.sampled_from((2, 1, 3)),
    "time": st.sampled_from((7, 5, 8, 3, 4, 2, 1)),
}


LONGER = (12, 20)  # a trained model looks back further than a drawn one
_SHORTEST = 3


def _fixed_cases(held: Held, where: Callable[[Configuration], bool], given: dict[str, Any], deep: bool) -> Strategy:
    """Token ids for the model that is there, if the condition admits it; two cases and a few tokens fit its context."""
    c = held.shape
    if not where(c):
        raise Declined("it is no model for which this clause says anything")
    if given.get("layers") == 1 and c.layers > 1 and not deep:
        raise Declined(f"this is asked of one layer, and it has {c.layers} that can not be parted")
    longest = max(1, (held.context - _SHORTEST) // 2) if held.context else max(LONGER)
    if longest < _SHORTEST and given.get("time") != 1:
        raise Declined(f"its context of {held.context} tokens is too short for this")
    drawn = {n: v if isinstance(v, st.SearchStrategy) else st.just(v) for n, v in given.items() if n in _OF_IDS}
    own = {"seed": st.integers(0, 9999), **{n: _USUAL[n] for n in _OF_IDS}, **drawn}
    times = own["time"].filter(lambda time: time <= longest)
    if longest >= max(LONGER) and given.get("time") != 1:
        times = st.one_of(times, st.sampled_from(LONGER))
    fixed = {"vocabulary": st.just(held.ids), "layers": st.just(c.layers), "held": st.just(held), "time": times}
    return st.builds(FixedCase, **{**own, **fixed})


_OF_IDS = ("batch", "time")


def _case(family: str, heads: int, kv_heads: int, **rest: Any) -> ModelCase:
    return ModelCase(family=family, heads=heads, kv_heads=kv_heads, **rest)


def _fits(family: str, heads: int, kv_heads: int) -> bool:
    return kv_heads == heads or FAMILIES[family].shares


@cache
def example(family: str) -> Configuration:
    """A small member of the family, to ask what it is like."""
    return ModelCase(family=family, heads=2, kv_heads=1, head_width=4, window=2).configuration
