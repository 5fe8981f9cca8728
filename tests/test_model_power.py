"""What only shows in a whole model is caught there, without a trace too, and its own clause is named first."""

from dataclasses import replace

import numpy as np
import pytest

from gnomon.impl.faults import faults
from gnomon.impl.faults.confined import confined
from gnomon.impl.loading import described
from gnomon.impl.reference import Model, NumpyReference
from gnomon.props.engine import Budget, examine, finds
from gnomon.props.outcome import Status
from gnomon.props.property import properties
from gnomon.props.report import _causes_first, _suspects
from gnomon.props.subject import Subject
from gnomon.spec import block, heads, masks, order, rotary
from gnomon.spec.families import FAMILIES

BUDGET = Budget(cases=30, shrink=False, sensitivity=False)
MODEL = [p for p in properties() if "model" in p.needs]


class Untraced(Model):
    """A model that shows nothing of what it computes."""

    def __call__(self, tokens, *, positions=None, mask=None, cache=None):
        return super().__call__(tokens, positions=positions, mask=mask, cache=cache)


def black_box(operations, families=("llama",)):
    """Nothing but the model of a NumPy implementation, without a trace, for some families."""

    class Box:
        declaration = replace(operations.declaration, families=families, paths={}, dtypes=("float32",))

        def model(self, configuration, parameters):
            return Untraced(operations, configuration, dict(parameters))

    return described("box", Box(), "box")


def fault(mistake):
    return next(f for f in faults() if f.mistake is mistake).implementation.operations["model"].__self__


def violated(implementation, dtype="float32"):
    verdicts = [examine(p, Subject(implementation, dtype), BUDGET) for p in MODEL]
    return [v for v in verdicts if v.status is Status.VIOLATED]


@pytest.mark.parametrize(
    ("mistake", "family", "clause"),
    [
        (rotary.LAYOUTS_EXCHANGED, "llama", "VI.2"),
        (masks.WINDOW_ONE_MORE, "mistral", "V.4.11"),
        (masks.LEFT_PADDING_SHIFTS, "gpt2", "V.4.9"),
        (masks.POSITIONS_RESTART, "llama", "V.4.6"),
        (heads.TILED_FOR_GROUPED, "llama", "V.3.6"),
        (block.EPSILON_IGNORED, "llama", "VII.1.5"),
    ],
    ids=lambda x: getattr(x, "slug", x),
)
def test_a_fault_is_named_first_without_a_trace(mistake, family, clause):
    found = violated(black_box(fault(mistake), (family,)))
    assert found
    first, *_ = _causes_first(found)
    assert clause in (first[0].clause, first[0].suspect, first[0].clause.rpartition(".")[0])
    assert _suspects(found)[0][0].startswith(clause)


def test_a_window_that_is_one_too_small_violates_its_clause():
    assert "V.4.11" in {v.clause for v in violated(black_box(fault(masks.WINDOW_ONE_LESS), ("mistral",)))}


def test_a_correct_model_without_a_trace_holds():
    assert violated(black_box(NumpyReference(), tuple(FAMILIES))) == []


# Faults confined to a place.

BFLOAT16 = "bfloat16"


@pytest.mark.parametrize("dtype", ["float32", BFLOAT16])
@pytest.mark.parametrize("mistake", [heads.TILED_FOR_GROUPED, block.GAIN_WITHOUT_ONE, rotary.ANOTHER_BASE])
def test_a_fault_in_the_second_layer_alone_is_found_there(mistake, dtype):
    implementation = described("confined", confined(type(fault(mistake)), layer=1)(), "confined")
    whole = next(p for p in MODEL if p.name == "whole_plate")
    verdict = examine(whole, Subject(implementation, dtype), replace(BUDGET, cases=60))
    assert verdict.status is Status.VIOLATED
    assert "  layers.1." in verdict.message


def test_a_fault_in_one_dtype_is_found_in_that_dtype_alone():
    implementation = described("confined", confined(type(fault(heads.TILED_FOR_GROUPED)), dtype=BFLOAT16)(), "confined")
    whole = next(p for p in MODEL if p.name == "whole_plate")
    found = {d: finds(whole, Subject(implementation, d), BUDGET) for d in ("float32", BFLOAT16)}
    assert found == {"float32": False, BFLOAT16: True}


def test_a_fault_on_the_cached_path_is_found_by_the_clause_of_the_cache_alone():
    implementation = described("confined", confined(type(fault(order.POSITIONS_ALL_ZERO)), cached=True)(), "confined")
    subject = Subject(implementation, "float32")
    told = {p.clause.number for p in MODEL if finds(p, subject, BUDGET)}
    assert told <= {"V.4.6", "V.4.9", "VI.2.7", "I.1.5", "VIII.3.3"}
    assert finds(next(p for p in MODEL if p.name == "decodes_as_prefill_in_a_model"), subject, BUDGET)


def test_a_violation_is_placed_at_the_first_operation_that_is_wrong():
    class Wrong(NumpyReference):
        """The values of the first layer are one hundredth too large."""

        def projected(self, x, parameters, name, layer, p):
            out = super().projected(x, parameters, name, layer, p)
            larger = np.asarray(out * 1.01, out.dtype) if (name, layer) == ("value", 0) else out
            return p.mark(f"layers.{layer}.{name}", larger)

    whole = next(p for p in MODEL if p.name == "whole_plate")
    verdict = examine(whole, Subject(described("wrong", Wrong(), "wrong"), "float32"), BUDGET)
    assert "  layers.0.value of a traced call[" in verdict.message
