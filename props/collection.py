"""The modules that hold the properties, loaded once."""

from importlib import import_module
from pathlib import Path


def load_all() -> None:
    """Import every module of properties; each registers its own."""
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        import_module(f"gnomon.props.{path.stem}")
