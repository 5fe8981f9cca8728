"""Whatever an implementation does, the command says one clear thing about it and loses no other verdict."""

from pathlib import Path

import pytest
from commanding import MINIATURES, gnomon

from gnomon.props.cases import read_case
from gnomon.props.smoke import smoke
from gnomon.spec.scale import MEASURED_SCALE

OPERATIONS = (
    "linear, relu, gelu, gelu_tanh, silu, softmax, attention, multi_head_attention, feed_forward, embedding, "
    "layer_norm, rms_norm, rope, sinusoidal_positions, alibi_slopes, block, model, convolution, recurrence, vjp, "
    "evaluate, cross_entropy, next_token_loss, tempered, initial_parameters, rounded, total, dropout, "
    "checkpointed_dropout, loss_scaler, master_step, share_under_floor, optimiser, schedule, clip_by_global_norm, "
    "factor_of_two, trainer, additive_attention, random_labels, recall, parameter_count, score_bytes, cache_bytes, "
    "crossing_length, path_length, operation_count, traffic, tokeniser, train_byte_pairs, encode_byte_pairs, "
    "split_rows, pipeline, protocol, score_record, compare_scores, gap, split_difference, token_windows, "
    "continuation_score, worksheet"
)
CLAUSES = ("--clause", "V.1.6", "--clause", "II.1.1")  # one of attention, one of the linear layer beside it
SECONDS = 5  # the limit that the fixture sets
SLACK = 12  # for the start of the processes, on a busy machine

CANNOT_RUN = {
    "fails_to_import.py": "fails_to_import.py failed while it was imported: ValueError: invalid literal for int() "
    "with base 10: 'sixty-four'. Import it by hand to see where.",
    "imports_missing.py": "imports_missing.py imports a_package_that_nobody_has, which is not installed: install it, "
    "or mend the import",
    "imports_missing_extra.py": "imports_missing_extra.py needs jax, which is not installed: pip install 'gnomon[jax]'",
    "no_operation.py": "no_operation.py offers none of the known operations: define a function named one of "
    f"{OPERATIONS}",
    "no_operation:nothing": "no_operation:nothing offers none of the known operations: define a function named one of "
    f"{OPERATIONS}",
    "no_operation:something": "the module no_operation has no something: check the name after the colon",
    "wrong_declaration.py": "wrong_declaration.py.declaration is a dict: it has to be a gnomon.impl.Declaration",
    "missing_path.py": "missing_path.py declares the path 'fast_attention' and has no function of that name",
    "nowhere.py": "there is no file nowhere.py: give the path of a Python file, or the name of a module",
}

BROKEN = {
    "wrong_shape.py": "attention returned the shape (2, 4, 2) where (1, 2, 4, 2) is due",
    "wrong_dtype.py": "attention returned float64 for float32 arguments: convert the result, or find what widened it "
    "(np.sqrt of an integer is float64; math.sqrt is not)",
    "raises.py": "attention raised ValueError: no kernel for this shape for (1, 2, 4, 2), (1, 2, 4, 2), (1, 2, 4, 2)",
    "exits.py": "attention raised SystemExit: 0 for (1, 2, 4, 2), (1, 2, 4, 2), (1, 2, 4, 2)",
    "ends_its_process.py": "attention ended its process (os._exit or a crash) on a small input",
    "hangs.py": "attention did not return within 5 seconds on a small input",
}

LOST = {
    "hangs_on_long_input.py": "did not return within 5 seconds",
    "killed_on_long_input.py": "ended its process or crashed it",
    "crashes_on_long_input.py": "ended its process or crashed it",
}


@pytest.mark.parametrize("name", CANNOT_RUN)
def test_what_cannot_be_loaded_is_said_in_one_sentence(check, name):
    ran = check(name, *CLAUSES)
    assert (ran.code, ran.err) == (3, "")
    assert ran.out == f"cannot run {CANNOT_RUN[name]}\n{name} cannot be checked: mend the above first\n"


def test_an_import_that_never_ends_is_given_up(monkeypatch):
    monkeypatch.setattr("gnomon.props.smoke.LIMIT_SECONDS", 2.0)
    found = smoke(str(MINIATURES / "hangs_on_import.py"), limit=1.0)
    assert found.fatal == f"{MINIATURES / 'hangs_on_import.py'} did not return within 2 seconds during the import"


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_operation_is_said_once_and_the_others_are_judged(check, name):
    ran = check(name, *CLAUSES, "--clause", "V.1.4")
    assert (ran.code, ran.err) == (3, "")
    assert ran.out == (
        f"error V.1.4; V.1.6: {BROKEN[name]}\n"
        "proposition             holds  error\n"
        "II.1         linear         1       \n"
        "V.1          attention             2\n"
        f"{name}: 1 of 3 clauses decided: 1 holds, 2 error (seed 0)\n"
    )
    assert ran.statuses == {"II.1.1": "holds", "V.1.4": "error", "V.1.6": "error"}
    assert ran.seconds < SECONDS + SLACK


@pytest.mark.parametrize("name", LOST)
def test_a_process_that_is_lost_costs_one_verdict(check, name):
    ran = check(name, *CLAUSES, "--cases", "20")
    assert (ran.code, ran.err) == (3, "")
    lost = f"V.1.6-limits: {name} {LOST[name]} in float32; the run went on in a new process"
    assert ran.out == (
        f"error V.1.6: {lost}\n"
        "proposition             holds  error\n"
        "II.1         linear         1       \n"
        "V.1          attention             1\n"
        f"{name}: 1 of 2 clauses decided: 1 holds, 1 error (seed 0)\n"
    )
    assert {v["clause"]: v["message"] for v in ran.verdicts} == {"II.1.1": "", "V.1.6": lost}
    assert ran.seconds < SECONDS + SLACK


def test_an_implementation_that_is_broken_throughout_is_not_run(check):
    ran = check("not_an_array.py")
    assert (ran.code, ran.err, ran.lines) == (3, "", ())
    assert ran.out == (
        "broken attention in float32: attention returned a list where a NumPy array was due\n"
        "not_an_array.py cannot be checked: mend the above first\n"
    )


def test_smoke_goes_on_after_a_hang():
    ran = gnomon("smoke", "hangs.py", "--dtype", "float32", "--timeout", "2")
    assert (ran.code, ran.err) == (3, "")
    assert ran.out == (
        "broken attention in float32: attention did not return within 2 seconds on a small input\n"
        "works linear in float32\n"
        "hangs.py can be checked\n"
    )


def test_noise_reaches_neither_stream_and_costs_nothing(check):
    ran = check("noisy.py", "--clause", "V.1.6", "--cases", "20")
    assert (ran.code, ran.err, ran.statuses) == (0, "", {"V.1.6": "holds"})
    assert "noise" not in ran.out


def test_changed_arguments_are_told_from_a_wrong_result(check):
    ran = check("mutates.py", "--clause", "I.1.2", "--clause", "V.1.6", "--cases", "20")
    assert (ran.code, ran.statuses) == (1, {"I.1.2": "violated", "V.1.6": "holds"})
    assert "  argument 0 of attention after the call[0, 0, 0, 0]: got " in ran.out
    assert "  looks like: scaled-in-place (I.1.2): the query is scaled in the caller's own array\n" in ran.out


def test_nan_is_a_wrong_result(check):
    ran = check("nan_everywhere.py", *CLAUSES, "--cases", "20")
    assert (ran.code, ran.statuses) == (1, {"II.1.1": "holds", "V.1.6": "violated"})
    assert "[0, 0, 0, 0]: got nan, wanted " in ran.out


def test_what_is_declined_is_unsupported_for_the_reason_given(check):
    ran = check("declines.py", "--clause", "II.1.1", "--clause", "V.4.11")
    assert (ran.code, ran.err, ran.statuses) == (0, "", {"II.1.1": "holds", "V.4.11": "unsupported"})
    assert ran.out == (
        "unsupported V.4.11: windows are not offered yet\n"
        "proposition          holds  unsupported\n"
        "II.1         linear      1             \n"
        "V.4          masks                    1\n"
        "declines.py: 1 of 2 clauses decided: 1 holds, 1 unsupported (seed 0)\n"
    )


def test_other_results_at_every_call_are_a_violation(check):
    ran = check("flaky.py", "--clause", "I.1.1")
    assert (ran.code, ran.statuses) == (1, {"I.1.1": "violated"})


def test_the_framework_of_an_undeclared_module_is_the_one_that_it_imports(check):
    pytest.importorskip("torch")
    ran = check("torch_undeclared.py", "--clause", "V.2.1", "--cases", "20")
    assert (ran.code, ran.err, ran.statuses) == (0, "", {"V.2.1": "holds"})


@pytest.mark.parametrize(
    ("name", "folder"), [("./mine.py", MINIATURES), ("mine", MINIATURES), ("miniatures/mine.py", MINIATURES.parent)]
)
def test_ten_lines_without_the_root_are_told_so(check, name, folder):
    ran = check(name, "--clause", "V.2.1", "--cases", "20", cwd=folder)
    assert (ran.code, ran.err) == (1, "")
    violated = next(v for v in ran.verdicts if v["status"] == "violated")
    case = read_case(violated["replay"].partition("'measured_scale:")[2].rstrip("'"))
    smallest = case.batch, case.heads, case.queries, case.keys, case.width, case.seed
    assert (ran.out.partition("  by hand:\n")[0], smallest) == (
        f"V.2.1 measured-scale violated by {name} in float32\n"
        f"  {MEASURED_SCALE.statement}\n"
        "  scale at head width 2 [0, 0, 0]: got 0.999999983, wanted 0.707106781 ± 2.09e-06\n"
        f"  case: {str(case).replace(',', ', ').replace('=', ' ')}\n"
        "  looks like: no-scale (V.2.1): the scores are not divided at all\n"
        f"  replay: gnomon check {name} --clause V.2.1 --dtype float32 --case 'measured_scale:{case}'\n",
        (1, 1, 1, 2, 2, 0),
    )
    assert ran.out.endswith(f"{name}: 1 of 1 clauses decided: 1 violated (seed 0)\n")


def test_ten_lines_are_judged_on_all_that_they_offer(check):
    ran = check("mine.py", "--cases", "30")
    assert ran.code == 1
    assert "error" not in ran.statuses.values()
    assert {n for n, s in ran.statuses.items() if s == "violated"} >= {"V.1.1", "V.2.1", "V.2.2", "V.2.4"}
    assert ran.statuses["V.1.4"] == "holds"


def test_every_miniature_is_used():
    text = Path(__file__).read_text()
    unused = [p.stem for p in MINIATURES.glob("*.py") if p.stem not in text]
    assert (unused, (MINIATURES / "__pycache__").exists()) == ([], False)


def test_a_file_may_be_named_like_a_library_and_import_its_neighbours(check, tmp_path):
    (tmp_path / "neighbour.py").write_text("WIDTH = 1\n")
    (tmp_path / "json.py").write_text("import neighbour\n" + (MINIATURES / "mine.py").read_text())
    ran = check("./json.py", "--clause", "V.2.1", cwd=tmp_path)
    assert (ran.code, ran.statuses, ran.err) == (1, {"V.2.1": "violated"}, "")
