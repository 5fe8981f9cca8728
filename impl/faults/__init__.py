"""Faulty implementations: each commits one usual mistake, and the clause that owns it has to reject it."""

from gnomon.impl.faults.registry import CONTROLS, Control, Fault, commits, control, faults, faults_of

__all__ = ["CONTROLS", "Control", "Fault", "commits", "control", "faults", "faults_of"]
