"""VIII.3 held to what an implementation learns: recall from the far end, up to the trained length and beyond."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from gnomon.props.box import Box, Input, built
from gnomon.props.cases import EXPERIMENTS, ExperimentCase
from gnomon.props.experiments import Adam, Named, classified, require_training
from gnomon.props.judge import Comparison, between
from gnomon.props.outcome import Declined
from gnomon.props.property import checks
from gnomon.props.subject import Subject
from gnomon.spec import context as spec
from gnomon.spec.configuration import Configuration
from gnomon.spec.evaluators import Floats
from gnomon.spec.families import member
from gnomon.spec.model import Tokens
from gnomon.spec.shapes import parameter_shapes

Comparisons = Iterator[Comparison]

ANSWERS, FILLERS = 8, 8
QUESTION = ANSWERS + FILLERS  # the last id
LENGTH, WAVELENGTH = 16, 64
WITHIN, BEYOND, ASKED = (LENGTH // 2, LENGTH), (2 * LENGTH, 5 * LENGTH // 2), 200
BATCH, STEPS, RATE, GOAL = 32, 300, 0.01, 0.03


def asked(rng: np.random.Generator, length: int, distance: Tokens) -> tuple[Tokens, Tokens]:
    """Fillers with one answer among them, so far from the question at the end; and the answers."""
    answers = rng.integers(0, ANSWERS, len(distance))
    tokens = rng.integers(ANSWERS, QUESTION, (len(distance), length + 1))
    tokens[:, -1] = QUESTION
    tokens[np.arange(len(distance)), length - distance] = answers
    return tokens, answers


@dataclass(eq=False)
class Learner:
    """A model of one layer that learns to give the one answer among fillers, at distances up to LENGTH.

    It learns until the mean loss of ten steps is under GOAL, or for STEPS where it never is.
    """

    subject: Subject
    seed: int
    parameters: Named = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        for name, shape in parameter_shapes(self.configuration).items():
            self.parameters[name] = self.first(name, shape)

    @property
    def configuration(self) -> Configuration:
        """Four heads of four features each, which turn at one radian a token and at one turn a WAVELENGTH."""
        offered = self.subject.implementation.declaration.families
        family = next((f for f in spec.PLAIN_ROTARY if f in offered), None)
        if family is None:
            raise Declined(f"it offers none of the families {', '.join(spec.PLAIN_ROTARY)}")
        return member(family, vocabulary=QUESTION + 1, layers=1, heads=4, kv_heads=4, head_width=4, feed_forward=16,
                      base=(WAVELENGTH / (2 * np.pi)) ** 2)  # fmt: skip

    def first(self, name: str, shape: tuple[int, ...]) -> Floats:
        """Initial parameters: gains one, biases zero, weights of variance one over their inputs, a table of one."""
        if len(shape) == 1:
            return np.full(shape, 0.0 if name.endswith("bias") else 1.0)
        drawn = self.rng.standard_normal(shape)
        return drawn if name == "token_embedding" else drawn / shape[1] ** 0.5

    def box(self) -> Box:
        """The model as it is now."""
        return built(self.subject, self.configuration, self.parameters)

    def learn(self) -> "Learner":
        """Itself, after it has learned."""
        adam, losses = Adam(RATE), list[float]()
        while len(losses) < STEPS and not (len(losses) > 10 and np.mean(losses[-10:]) < GOAL):
            losses.append(self.step(adam))
        return self

    def step(self, adam: Adam) -> float:
        """The loss on fresh questions, and one step of learning from it."""
        tokens, answers = asked(self.rng, LENGTH, self.rng.integers(1, LENGTH + 1, BATCH))
        box, given = self.box(), Input(tokens)
        logits = box(given)
        upstream = np.zeros_like(logits)
        loss, upstream[:, -1] = classified(logits[:, -1], answers)
        adam.step(self.parameters, box.gradients(given, upstream))
        self.subject.calls.clear()
        return loss

    def recalled(self, distance: int) -> int:
        """How many of ASKED answers it gives from the far end of so many tokens."""
        tokens, answers = asked(self.rng, distance, np.full(ASKED, distance))
        return int((self.box()(Input(tokens))[:, -1].argmax(-1) == answers).sum())


@checks(spec.TRAINED_LENGTH, EXPERIMENTS, needs=("model",), experiment=True)
def trained_length(subject: Subject, case: ExperimentCase) -> Comparisons:
    """Up to the trained length it recalls the far end; at twice that it takes the tokens and does not."""
    require_training(subject)
    learner = Learner(subject, case.seed).learn()
    for distance in WITHIN:
        yield between(f"recalled at {distance} of {ASKED}", learner.recalled(distance), 3 * ASKED // 4, ASKED, 0.0)
    for distance in BEYOND:
        yield between(f"recalled at {distance} of {ASKED}", learner.recalled(distance), 0, ASKED // 2, 0.0)
