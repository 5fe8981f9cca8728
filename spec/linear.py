"""II.1: a linear layer is affine, and affine maps collapse."""

from collections.abc import Mapping
from typing import Any

from gnomon.spec.card import Clause, Kind, Level, Mistake, Proposition
from gnomon.spec.constants import HALF, ONE, ROOT_HALF, ROOT_TWO_OVER_PI, TANH_CUBIC
from gnomon.spec.evaluators import Evaluator, Quantity
from gnomon.spec.function import FUNCTION

ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "silu")


def linear(E: Evaluator, x: Any, weight: Any, bias: Any = None) -> Quantity:
    """y = Wx + b at every position; x `[..., time, in]`, weight `[out, in]`, bias `[out]`."""
    x, transposed = E.number(x), E.number(weight).swapaxes(-1, -2)
    product = E.matmul(x, transposed) if bias is None else E.affine(x, transposed, E.number(bias))
    return E.store(product, "out")


def relu(E: Evaluator, x: Any) -> Quantity:
    """max(x, 0)."""
    return E.rectify(E.number(x))


def gelu(E: Evaluator, x: Any) -> Quantity:
    """x·Φ(x) with Φ the standard normal distribution function (Hendrycks and Gimpel 2016)."""
    x = E.number(x)
    erf = _step(E, E.erf(_step(E, x * E.constant(ROOT_HALF))))
    return E.store(x * _half_more_than_one(E, erf), "out")


def gelu_tanh(E: Evaluator, x: Any) -> Quantity:
    """x/2·(1 + tanh(√(2/π)(x + 0.044715x³))), the approximation of the same paper."""
    x = E.number(x)
    cubic = _step(E, _step(E, _step(E, x * x) * x) * E.constant(TANH_CUBIC))
    inner = _step(E, _step(E, x + cubic) * E.constant(ROOT_TWO_OVER_PI))
    return E.store(x * _half_more_than_one(E, _step(E, E.tanh(inner))), "out")


def _half_more_than_one(E: Evaluator, a: Quantity) -> Quantity:
    """(1 + a)/2."""
    return _step(E, _step(E, a + E.constant(ONE)) * E.constant(HALF))


def _step(E: Evaluator, a: Quantity) -> Quantity:
    """An intermediate that is stored where an activation is written out operation by operation."""
    return E.store(a, "steps")


def silu(E: Evaluator, x: Any) -> Quantity:
    """x/(1 + e^-x)."""
    x = E.number(x)
    return E.store(x * _step(E, E.sigmoid(x)), "out")


def activate(E: Evaluator, name: str, x: Quantity) -> Quantity:
    """The activation of that name."""
    return {"relu": relu, "gelu": gelu, "gelu_tanh": gelu_tanh, "silu": silu}[name](E, x)


def feed_forward(E: Evaluator, x: Any, parameters: Mapping[str, Any], activation: str) -> Quantity:
    """down(act(up(x))), or down(act(gate(x))·up(x)) where a gate is among the parameters."""

    def project(name: str, inner: Any, site: str = "hidden") -> Quantity:
        return E.store(linear(E, inner, parameters[f"{name}_weight"], parameters.get(f"{name}_bias")), site)

    up = project("up", x)
    if "gate_weight" not in parameters:
        return project("down", activate(E, activation, up), "out")
    gated = activate(E, activation, project("gate", x)) * up
    return project("down", E.store(gated, "hidden"), "out")


LINEAR = Proposition(
    number="II.1",
    slug="linear",
    statement="A linear layer is affine in its input, and a stack of affine maps is one affine map.",
    formula=r"y = Wx + b,\qquad W_2(W_1x + b_1) + b_2 = (W_2W_1)x + (W_2b_1 + b_2)",
    source="Foundations, gathered: equation 2 and the first usual mistake; vocabulary: tensor",
    rests_on=(FUNCTION,),
    said="Deeper is more expressive.",
    so="Only with a non-linearity between the layers; without one, depth changes nothing at all.",
)

HIDDEN_ACTIVATION = Mistake(
    "hidden-activation",
    "the layer applies its activation itself",
    "a second activation after it changes nothing visible, so the network still trains",
)
AFFINE = Clause(
    proposition=LINEAR,
    number="II.1.1",
    slug="affine",
    statement="A combination of inputs whose weights sum to one goes through the layer unchanged.",
    formula=r"f(\lambda x + (1-\lambda)y) = \lambda f(x) + (1-\lambda) f(y)",
    kind=Kind.BOUND,
    proven=True,
    mistakes=(HIDDEN_ACTIVATION,),
)

LEAKY_SLOPE = Mistake(
    "leaky-slope",
    "negative outputs are multiplied by 0.999",
    "a stack bends a little at every layer and is no longer one map",
    unseen={"bfloat16": "a relative change of 0.001 is a quarter of its spacing"},
)
BIAS_FIRST = Mistake(
    "bias-first",
    "the bias is added to the input and goes through the weight",
    "square layers run without an error; the bias arrives transformed",
)
COLLAPSE = Clause(
    proposition=LINEAR,
    number="II.1.2",
    slug="collapse",
    statement="A stack of linear layers equals the one layer with the product of the weights and the accumulated bias.",
    formula=r"W_n(\cdots(W_1x+b_1)\cdots)+b_n = (W_n\cdots W_1)x + \sum_i W_n\cdots W_{i+1}b_i",
    kind=Kind.BOUND,
    proven=True,
    rests_on=(AFFINE,),
    mistakes=(LEAKY_SLOPE, BIAS_FIRST),
)

ACTIVATION_FORGOTTEN = Mistake(
    "activation-forgotten",
    "the feed-forward network multiplies its two matrices with nothing between them",
    "the network is one linear layer; training loss falls, then stalls early",
)
NOT_AFFINE = Clause(
    proposition=LINEAR,
    number="II.1.3",
    slug="not-affine",
    statement="With its non-linearity the feed-forward network is not affine: some combination of two inputs "
    "breaks II.1.1 by more than rounding can.",
    formula=r"\exists x,y:\ F(\tfrac12x+\tfrac12y) \ne \tfrac12F(x)+\tfrac12F(y)",
    kind=Kind.BOUND,
    level=(Level.OP, Level.BLOCK),
    rests_on=(AFFINE,),
    mistakes=(ACTIVATION_FORGOTTEN,),
)

TRANSPOSED_WEIGHT = Mistake(
    "transposed-weight",
    "the weight is applied as it lies, [out, in], without the transpose",
    "a square layer runs and computes another function",
)
OVER_POSITIONS = Mistake(
    "over-positions",
    "the weight contracts the time axis where that has the width's length",
    "positions are mixed by a layer that should not see them",
)
RESHAPED = Mistake(
    "reshaped",
    "time and features are exchanged by a reshape where a transpose was meant",
    "shapes agree and numbers belong to other positions",
)
FEATURE_AXIS = Clause(
    proposition=LINEAR,
    number="II.1.4",
    slug="feature-axis",
    statement="The weight acts on the feature axis alone and alike at every position and row, also when all "
    "axes have one length.",
    formula=r"f(X)_{b,t} = W x_{b,t} + b",
    kind=Kind.BOUND,
    mistakes=(TRANSPOSED_WEIGHT, OVER_POSITIONS, RESHAPED),
)

TANH_FOR_ERF = Mistake(
    "tanh-for-erf",
    "GELU is computed by its tanh approximation",
    "differs by up to 5e-4; a checkpoint trained with the exact form drifts layer by layer",
)
ERF_FOR_TANH = Mistake(
    "erf-for-tanh",
    "the tanh form of GELU is computed by the error function",
    "differs by up to 5e-4; a checkpoint trained with the tanh form drifts layer by layer",
    seen=("a small public project (2026)", "NVIDIA-NeMo/Megatron-Bridge#4661 (2026)"),
    bugs=("B120", "B121"),
)
GATE_AND_UP_EXCHANGED = Mistake(
    "gate-and-up-exchanged",
    "the activation is applied to the up projection and the gate is left linear",
    "shapes agree and training works; a checkpoint written the other way gives noise",
    seen=("ml-explore/mlx-lm#767 (2026)",),
    bugs=("B142",),
)
QUICK_GELU = Mistake(
    "quick-gelu",
    "x·sigmoid(1.702x) is used for GELU",
    "differs by up to 0.02; meant for the few models that were trained with it",
)
ACTIVATION_FORM = Clause(
    proposition=LINEAR,
    number="II.1.5",
    slug="activation-form",
    statement="The activation is the declared one: exact GELU, tanh GELU, SiLU and ReLU are different "
    "functions, and in a gated unit the gate is the factor that is activated.",
    formula=r"\mathrm{gelu}(x)=x\Phi(x),\ \mathrm{silu}(x)=x\sigma(x),\ "
    r"F(x)=W_d\,(\mathrm{act}(W_gx)\odot W_ux)",
    kind=Kind.BOUND,
    mistakes=(TANH_FOR_ERF, ERF_FOR_TANH, GATE_AND_UP_EXCHANGED, QUICK_GELU),
)
