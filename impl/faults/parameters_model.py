"""Faults of VII.2 in whole models: parameters that are not reported, or reported twice."""

from gnomon.impl.faults.registry import commits
from gnomon.impl.reference import NumpyReference, Parameters
from gnomon.spec.configuration import Configuration
from gnomon.spec.parameters import BIAS_NOT_REPORTED, HEAD_REPORTED_TWICE


@commits(BIAS_NOT_REPORTED)
class BiasNotReported(NumpyReference):
    """No bias is exported."""

    def exported(self, held: Parameters, c: Configuration) -> Parameters:
        return {name: p for name, p in held.items() if not name.endswith("_bias")}


@commits(HEAD_REPORTED_TWICE)
class HeadReportedTwice(NumpyReference):
    """A tied table is exported under both of its names."""

    def exported(self, held: Parameters, c: Configuration) -> Parameters:
        return {**held, "unembedding_weight": held["token_embedding"]}
