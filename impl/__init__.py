"""Who claims it: the interface to plug into, adapters for real libraries, and the faulty ones."""

from gnomon.impl.declaration import Declaration, Fixed

__all__ = ["Declaration", "Fixed"]
