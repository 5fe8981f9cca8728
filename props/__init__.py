"""How it is checked: cases, properties, the judge, the pytest plugin, the command and the reports."""

from gnomon.props.conformance import conformance

__all__ = ["conformance"]
