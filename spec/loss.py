"""I.4: the loss is not the objective."""

from gnomon.spec.card import Clause, Kind, Level, Mistake, Proposition
from gnomon.spec.function import FUNCTION

OP_AND_TRAIN = (Level.OP, Level.TRAIN)

LOSS = Proposition(
    number="I.4",
    slug="loss",
    statement="The loss is not the objective: it is what can be computed and descended, and it leaves things out.",
    formula=r"L(z,y) = -\log\frac{e^{z_y}}{\sum_j e^{z_j}}",
    source="Foundations, gathered: chapter I, proposition 4; laboratory 7; vocabulary: logit",
    rests_on=(FUNCTION,),
)

SOFTMAX_TWICE = Mistake(
    "softmax-twice",
    "probabilities are given to a cross-entropy that takes logits, so that softmax is applied twice",
    "the loss cannot fall below 1 − log(1 + (V−1)/e) from log V, and its gradient is weak; training runs and stalls",
)
CLIPPED_PROBABILITY = Mistake(
    "clipped-probability",
    "the logarithm is taken of a probability that was clipped at 1e-7",
    "no loss exceeds 16.1, and the tokens that are worst predicted have no gradient",
)
NO_MAXIMUM = Mistake(
    "no-maximum",
    "exponentials are taken without the largest logit subtracted",
    "logits above 88 give an infinite loss or NaN in float32",
    seen=("NVIDIA/FasterTransformer#43 (2021)",),
)
CROSS_ENTROPY = Clause(
    proposition=LOSS,
    number="I.4.1",
    slug="cross-entropy",
    statement="Cross-entropy from logits is the negative log-probability of the target: at least zero, log V at equal "
    "logits, unchanged when a constant is added to all logits, and finite for logits of ten thousand.",
    formula=r"L(z,y) = \log\sum_j e^{z_j} - z_y,\qquad L(z+c,y) = L(z,y)",
    kind=Kind.BOUND,
    level=OP_AND_TRAIN,
    proven=True,
    mistakes=(SOFTMAX_TWICE, CLIPPED_PROBABILITY, NO_MAXIMUM),
)
