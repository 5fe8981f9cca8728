"""Faults of III.1 in whole models: another unembedding than the declared one."""

from dataclasses import replace

import numpy as np

from gnomon.impl.faults.registry import commits
from gnomon.impl.reference import Array, NumpyReference, Parameters
from gnomon.spec.configuration import Configuration
from gnomon.spec.embedding import ALIASED_HEAD, LOGITS_NOT_CAPPED, LOGITS_NOT_SCALED, TIED_IN_NAME_ONLY


@commits(ALIASED_HEAD)
class AliasedHead(NumpyReference):
    """Every unembedding is the token table."""

    def unembedding(self, parameters: Parameters, c: Configuration) -> Array:
        return parameters["token_embedding"]


@commits(TIED_IN_NAME_ONLY)
class TiedInNameOnly(NumpyReference):
    """The rows of a tied unembedding past the first half are zero."""

    def unembedding(self, parameters: Parameters, c: Configuration) -> Array:
        table = super().unembedding(parameters, c)
        known = (np.arange(len(table)) < len(table) // 2) | (not c.tied)
        return np.where(known[:, None], table, 0).astype(table.dtype)


@commits(LOGITS_NOT_SCALED)
class LogitsNotScaled(NumpyReference):
    """The factor is one."""

    def unembedded(self, final: Array, parameters: Parameters, c: Configuration) -> Array:
        return super().unembedded(final, parameters, replace(c, logit_scale=1.0))


@commits(LOGITS_NOT_CAPPED)
class LogitsNotCapped(NumpyReference):
    """There is no cap."""

    def unembedded(self, final: Array, parameters: Parameters, c: Configuration) -> Array:
        return super().unembedded(final, parameters, replace(c, logit_cap=0.0))
