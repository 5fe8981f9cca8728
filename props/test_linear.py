"""II.1 held to an implementation: affine, collapsing, acting on features alone, bent by the declared activation."""

from collections.abc import Iterator

import numpy as np
from hypothesis import strategies as st

from gnomon.props import expected
from gnomon.props.cases import (
    LENGTHS,
    FeedForwardCase,
    LinearCase,
    Strategy,
    feed_forward_cases,
    linear_cases,
)
from gnomon.props.judge import Comparison, close
from gnomon.props.property import checks
from gnomon.props.subject import Subject
from gnomon.spec import linear as spec
from gnomon.spec.bounds import Bounds, allowed, round_to
from gnomon.spec.evaluators import Float64, Floats

Comparisons = Iterator[Comparison]


def halves(case: LinearCase | FeedForwardCase, subject: Subject) -> tuple[Floats, Floats, Floats]:
    """Two inputs and the mean of both, all exact in every format."""
    shape = case.input(subject.precision.storage).shape
    one, other = case.rng.integers(-16, 17, (2, *shape)) / 4.0
    return one, other, (one + other) / 2


@checks(spec.AFFINE, linear_cases(), needs=("linear",))
def affine(subject: Subject, case: LinearCase) -> Comparisons:
    """The layer of a mean is the mean of the layers."""
    weight, bias = case.layer(subject.precision.storage)
    one, other, mean = halves(case, subject)
    got = [subject.linear(x, weight, bias) for x in (one, other, mean)]
    blur = [expected.linear(subject, x, weight, bias).allowed for x in (one, other, mean)]
    yield close("layer of a mean", got[2], (got[0] + got[1]) / 2, blur[2] + (blur[0] + blur[1]) / 2)


@checks(spec.COLLAPSE, linear_cases(), needs=("linear",))
def collapse(subject: Subject, case: LinearCase) -> Comparisons:
    """A stack of layers is the one layer with the multiplied weight and the accumulated bias."""
    form = subject.precision.storage
    x = got = case.input(form)
    tracked = Bounds(subject.precision).number(x)
    weight, bias = np.eye(case.inner), np.zeros(case.inner)
    for index in range(case.depth):
        own, shift = case.layer(form, index)
        got = subject.linear(got, own, shift)
        tracked = spec.linear(Bounds(subject.precision), tracked, own, shift)
        weight, bias = own @ weight, own @ bias + (0.0 if shift is None else shift)
    once = spec.linear(Float64(), x, weight, bias)
    yield close("output of the stack", got, once, allowed(tracked) + np.abs(tracked.value - once))


@checks(spec.NOT_AFFINE, feed_forward_cases(regime="ordinary"), needs=("feed_forward",))
def not_affine(subject: Subject, case: FeedForwardCase) -> Comparisons:
    """Where the definition bends by more than rounding, so does the network."""
    parameters = case.parameters(subject.precision.storage)
    inputs = halves(case, subject)
    shape = inputs[0].shape
    got = [subject.call("feed_forward", x, parameters, shape=shape, activation=case.activation) for x in inputs]
    due = [expected.feed_forward(subject, x, parameters, activation=case.activation) for x in inputs]
    blur = due[2].allowed + (due[0].allowed + due[1].allowed) / 2
    bent = np.abs(due[2].value - (due[0].value + due[1].value) / 2) > 2 * blur
    departure = np.abs(got[2] - (got[0] + got[1]) / 2)
    certain = np.where(bent, 0.0, np.inf)
    yield close("departure from an affine map", departure, np.maximum(departure, np.where(bent, blur, 0)), certain)


@checks(spec.FEATURE_AXIS, linear_cases(), needs=("linear",), mistakes=())
def feature_axis(subject: Subject, case: LinearCase) -> Comparisons:
    """Every position gets the same map of its own features."""
    form = subject.precision.storage
    weight, bias = case.layer(form)
    x = case.input(form)
    yield close("output", subject.linear(x, weight, bias), *expected.linear(subject, x, weight, bias))


@checks(spec.FEATURE_AXIS, st.sampled_from(LENGTHS[1:]).flatmap(
    lambda n: linear_cases(batch=n, time=n, inner=n, outer=n)
), needs=("linear",))  # fmt: skip
def feature_axis_of_a_cube(subject: Subject, case: LinearCase) -> Comparisons:
    """The same when batch, time and features have one length."""
    yield from feature_axis.check(subject, case)


def offered_activations(subject: Subject) -> Strategy:
    """Feed-forward cases whose activation the subject has as a function of its own."""
    offered = [a for a in spec.ACTIVATIONS if subject.offers(a)]
    return feed_forward_cases(activation=st.sampled_from(offered or list(spec.ACTIVATIONS)))


@checks(
    spec.ACTIVATION_FORM, offered_activations, needs=(),
    mistakes=(spec.TANH_FOR_ERF, spec.ERF_FOR_TANH, spec.QUICK_GELU),
)  # fmt: skip
def activation_form(subject: Subject, case: FeedForwardCase) -> Comparisons:
    """Each activation is its definition, from far below zero to far above."""
    x = round_to(case.input(subject.precision.storage) * (1 + case.seed % 3), subject.precision.storage)
    got = subject.call(case.activation, x, shape=x.shape)
    yield close(f"{case.activation} ", got, *expected.activation(subject, case.activation, x))


@checks(spec.ACTIVATION_FORM, feed_forward_cases(gated=False), needs=("feed_forward",), mistakes=())
def feed_forward(subject: Subject, case: FeedForwardCase) -> Comparisons:
    """The network is its definition."""
    form = subject.precision.storage
    x, parameters = case.input(form), case.parameters(form)
    got = subject.call("feed_forward", x, parameters, shape=x.shape, activation=case.activation)
    yield close("output", got, *expected.feed_forward(subject, x, parameters, activation=case.activation))


@checks(
    spec.ACTIVATION_FORM,
    feed_forward_cases(gated=True),
    needs=("feed_forward",),
    mistakes=(spec.GATE_AND_UP_EXCHANGED,),
)
def gated_feed_forward(subject: Subject, case: FeedForwardCase) -> Comparisons:
    """With a gate, the gate is the activated factor."""
    yield from feed_forward.check(subject, case)
