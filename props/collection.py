"""The modules that hold the properties, loaded once."""

from importlib import import_module

from gnomon.spec.catalogue import TOPICS


def load_all() -> None:
    """Import every module of properties; each registers its own."""
    for topic in TOPICS:
        import_module(f"gnomon.props.test_{topic}")
