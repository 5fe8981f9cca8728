"""A module that wants a framework that gnomon knows, as it looks where that is not installed."""

raise ModuleNotFoundError("No module named 'jax'", name="jax")
