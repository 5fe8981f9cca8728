"""Tails of distributions, as rigorous bounds in closed form, for clauses that are decided by a test."""

import math


def chi_square_tails(freedom: int, probability: float) -> tuple[float, float]:
    """An interval that a χ² variable leaves with at most this probability (Laurent and Massart 2000, lemma 1)."""
    x = math.log(2 / probability)
    return freedom - 2 * math.sqrt(freedom * x), freedom + 2 * math.sqrt(freedom * x) + 2 * x
