"""Faults of III.1 in whole models: another unembedding than the declared one."""

from dataclasses import replace

import numpy as np

from gnomon.impl.faults.registry import commits
from gnomon.impl.reference import Array, Model, NumpyReference, Parameters
from gnomon.spec.configuration import Configuration
from gnomon.spec.embedding import (
    ALIASED_HEAD,
    LAST_TOKEN_TAKEN_FOR_PADDING,
    LOGITS_NOT_CAPPED,
    LOGITS_NOT_SCALED,
    PADDING_LOGITS_FINITE,
    PADDING_ROWS_COMPETE,
    RESERVED_ROWS_ZERO,
    TIED_IN_NAME_ONLY,
    TRANSPOSED_TABLE,
)


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


@commits(TRANSPOSED_TABLE)
class TransposedTable(NumpyReference):
    """An unembedding that is square is transposed."""

    def unembedding(self, parameters: Parameters, c: Configuration) -> Array:
        table = super().unembedding(parameters, c)
        return table.T if len(table) == table.shape[1] else table


@commits(PADDING_ROWS_COMPETE)
class PaddingRowsCompete(NumpyReference):
    """All rows of the unembedding are given logits."""

    def scored_rows(self, c: Configuration) -> int:
        return c.rows


@commits(PADDING_LOGITS_FINITE)
class PaddingLogitsFinite(PaddingRowsCompete):
    """Those of padding rows are 32 below the smallest of the others."""

    def unembedded(self, final: Array, parameters: Parameters, c: Configuration) -> Array:
        logits = super().unembedded(final, parameters, c)
        real = np.arange(c.rows) < c.vocabulary
        lowered = logits[..., : c.vocabulary].min(-1, keepdims=True) - logits.dtype.type(32)
        return np.where(real, logits, lowered).astype(logits.dtype)


@commits(LAST_TOKEN_TAKEN_FOR_PADDING)
class LastTokenTakenForPadding(NumpyReference):
    """The last token's logit is minus infinity where the table is padded."""

    def unembedded(self, final: Array, parameters: Parameters, c: Configuration) -> Array:
        logits = super().unembedded(final, parameters, c)
        if c.padding_rows:
            logits[..., -1] = -np.inf
        return logits


@commits(RESERVED_ROWS_ZERO)
class ReservedRowsZero(NumpyReference):
    """The last token of a padded table has rows of zeros."""

    def model(self, configuration: Configuration, parameters: Parameters) -> Model:
        c, kept = configuration, np.arange(configuration.rows) != configuration.vocabulary - 1
        if not c.padding_rows:
            return super().model(c, parameters)
        tables = {n: p for n, p in parameters.items() if n in ("token_embedding", "unembedding_weight")}
        zeroed = {n: np.where(kept[:, None], p, 0).astype(p.dtype) for n, p in tables.items()}
        return super().model(c, {**parameters, **zeroed})
