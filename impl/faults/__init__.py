"""Faulty implementations: each commits one usual mistake, and the clause that owns it has to reject it."""

from gnomon.impl.faults.registry import Control, Fault, all_controls, commits, control, faults, faults_of

__all__ = ["Control", "Fault", "all_controls", "commits", "control", "faults", "faults_of"]
