"""Imports point one way, tolerances are derived and not typed, and the command starts without the heavy libraries."""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from commanding import python

ROOT = Path(__file__).parents[1]
HEAVY = {
    "torch", "jax", "flax", "equinox", "onnx", "onnxruntime", "transformers", "mlx", "mlx_lm", "x_transformers",
    "transformer_lens", "torchtune", "tokenizers", "tiktoken", "sentencepiece", "sklearn", "pandas", "pyarrow",
}  # fmt: skip
SPEC_NEEDS = {"numpy", "sympy", "ml_dtypes"}
# What an implementation may know of the specification: words, and which mistake it commits; never an answer.
WORDS = {"card", "configuration", "conventions", "families", "precision", "shapes"}
TOLERANCES = {
    "atol",
    "rtol",
    "allclose",
    "isclose",
    "approx",
    "assert_close",
    "assert_allclose",
    "assert_array_almost_equal",
}
# Small numbers that are no tolerance, and where they stand.
SMALL_LITERALS = {
    **{
        (path, 1e-8): "Adam's usual epsilon"
        for path in (
            "spec/descent.py",
            "impl/stepping.py",
            "props/stepping_cases.py",
            "impl/adapters/torch_training.py",
            "impl/adapters/optax_training.py",
        )
    },
    ("props/test_scale.py", 1e-9): "the error probability of a statistical test",
    ("props/test_function_dropout.py", 1e-9): "the error probability of a statistical test",
    ("props/experiments.py", 1e-9): "the error probability of an experiment",
    ("props/reaching.py", 1e-9): "the error probability of a verdict",
    ("props/test_gradient.py", 1e-9): "the error probability of a statistical test",
    ("impl/faults/masks.py", 1e-4): "the leak that the fault makes",
    ("impl/faults/masks.py", 1e-9): "the penalty that the fault writes for -1e9",
    ("impl/faults/masks.py", 1e-40): "the fainter leak of another",
    **{
        (f"{where}/configuration{s}.py", epsilon): "a model's epsilon, no tolerance"
        for where, s in (("spec", ""), ("impl", "s"))
        for epsilon in (1e-5, 1e-6, 1e-12)
    },
}
DERIVES_BOUNDS = {"spec/bounds.py", "spec/precision.py"}


def sources(*folders):
    return [p for f in folders for p in sorted((ROOT / f).rglob("*.py")) if "build" not in p.parts]


def tree(path):
    return ast.parse(path.read_text())


def imports(path, top_level=False):
    """Every module that a file imports, with the names taken from it."""
    nodes = tree(path).body if top_level else ast.walk(tree(path))
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((a.name, ()) for a in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            yield node.module, tuple(a.name for a in node.names)


def own(path):
    return [(module, names) for module, names in imports(path) if module.partition(".")[0] == "gnomon"]


def tracked():
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("this is no git checkout")
    return [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


FILES = pytest.mark.parametrize("path", sources("spec", "impl", "props"), ids=lambda p: str(p.relative_to(ROOT)))


@FILES
def test_imports_point_one_way(path):
    layer = path.relative_to(ROOT).parts[0]
    below = {"spec": {"spec"}, "impl": {"spec", "impl"}, "props": {"spec", "impl", "props"}}[layer]
    assert {module.split(".")[1] for module, _ in own(path)} <= below


@pytest.mark.parametrize("path", sources("impl"), ids=lambda p: str(p.relative_to(ROOT)))
def test_an_implementation_sees_no_answer(path):
    for module, names in own(path):
        if module.startswith("gnomon.spec.") and module.split(".")[2] not in WORDS:
            assert all(name.isupper() for name in names), f"{path} imports {names} from {module}"
            assert "faults" in path.parts, f"{path} knows {module}"


@pytest.mark.parametrize("path", sources("spec"), ids=lambda p: str(p.relative_to(ROOT)))
def test_the_specification_needs_little(path):
    outside = {m.partition(".")[0] for m, _ in imports(path)} - set(sys.stdlib_module_names) - {"gnomon"}
    assert outside <= SPEC_NEEDS


@FILES
def test_libraries_are_imported_by_their_adapters_only(path):
    adapter = "adapters" in path.parts
    top = {m.partition(".")[0] for m, _ in imports(path, top_level=True)}
    anywhere = {m.partition(".")[0] for m, _ in imports(path)}
    assert adapter or not top & HEAVY
    assert adapter or path.name == "frameworks.py" or not anywhere & HEAVY


def names_in(path):
    """Every identifier of a file, keywords of calls included."""
    for node in ast.walk(tree(path)):
        for field in ("id", "attr", "arg", "name"):
            value = getattr(node, field, None)
            if isinstance(value, str):
                yield value


@pytest.mark.parametrize("path", sources("spec", "impl", "props", "tests"), ids=lambda p: str(p.relative_to(ROOT)))
def test_no_tolerance_is_typed(path):
    assert set(names_in(path)) & TOLERANCES == set()


@FILES
def test_no_small_number_is_typed_outside_the_bounds(path):
    where = str(path.relative_to(ROOT))
    numbers = {n.value for n in ast.walk(tree(path)) if isinstance(n, ast.Constant) and isinstance(n.value, float)}
    small = {(where, n) for n in numbers if 0 < n < 1e-2}
    assert where in DERIVES_BOUNDS or small <= set(SMALL_LITERALS)


def loaded_by(code):
    ran = python("-c", f"import sys\n{code}\nprint(*sorted(sys.modules))")
    assert (ran.code, ran.err) == (0, "")
    return set(ran.out.split())


def test_the_command_starts_light():
    heavy = HEAVY | {"numpy", "sympy", "hypothesis", "pytest"}
    assert loaded_by("import gnomon.props.command") & heavy == set()


def test_the_list_needs_neither_pytest_nor_a_library():
    assert loaded_by("import gnomon.spec.catalogue") & (HEAVY | {"hypothesis", "pytest", "sympy"}) == set()


def test_every_folder_is_a_package_of_the_distribution():
    packages = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    folders = {"gnomon." + ".".join(p.parent.relative_to(ROOT).parts) for p in sources("spec", "impl", "props")}
    assert folders == packages


TWICE = """
import sys
from collections import Counter

import pytest

options = "--pyargs gnomon.props --impl numpy --clause V.1.8 --cases 3 -p no:cacheprovider"
pytest.main(options.split())
files = Counter(m.__file__ for m in list(sys.modules.values()) if getattr(m, "__file__", None))
print("TWICE", [f for f, n in files.items() if n > 1 and "test_" in f])
"""


def test_no_module_of_ours_is_loaded_under_two_names():
    ran = python("-c", TWICE)
    assert ran.out.endswith("TWICE []\n"), ran.out
    assert "1 of 1 clauses decided" in ran.out


def test_no_file_names_a_folder_of_this_machine():
    spelled = "/" + "work/"  # so that this file does not
    named = [str(p.relative_to(ROOT)) for p in tracked() if spelled.encode() in p.read_bytes()]
    assert named == []


def test_no_two_parts_of_the_numpy_implementation_hide_each_other():
    """Each of its many bases is there for its own operations; one fills in what another leaves open."""
    from gnomon.impl.reference import NumpyReference

    parts = [vars(base) for base in NumpyReference.__mro__[1:-1]]
    names = [name for part in parts for name in part if not name.startswith("__")]
    assert sorted(n for n in set(names) if names.count(n) > 1) == ["placed"]
