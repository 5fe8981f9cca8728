"""Tails of distributions, as rigorous bounds in closed form, for clauses that are decided by a test."""

import math
from collections.abc import Callable
from fractions import Fraction


def chi_square_tails(freedom: int, probability: float) -> tuple[float, float]:
    """An interval that a χ² variable leaves with at most this probability (Laurent and Massart 2000, lemma 1)."""
    x = math.log(2 / probability)
    return freedom - 2 * math.sqrt(freedom * x), freedom + 2 * math.sqrt(freedom * x) + 2 * x


def binomial_counts(trials: int, share: float, probability: float) -> tuple[int, int]:
    """An interval that the number of successes leaves with at most this probability (Chernoff, by relative entropy)."""
    limit = math.log(2 / probability) / trials

    def beyond(count: int) -> bool:
        return relative_entropy(count / trials, share) > limit

    middle = math.floor(trials * share)
    return _first(lambda n: not beyond(n), 0, middle), _first(beyond, middle, trials + 1) - 1


def relative_entropy(one: float, other: float) -> float:
    """Of a coin that falls heads with the first probability, relative to one with the second."""
    parts = ((one, other), (1 - one, 1 - other))
    return sum(a * (math.log(a / b) if b > 0 else math.inf) for a, b in parts if a > 0)


def _first(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The first number from `low` on for which it holds, where it holds for all that follow; `high` if for none."""
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


def fewest_successes(trials: int, share: Fraction, probability: Fraction) -> int:
    """What the successes of trials of at least this share fall under with at most this probability, exactly."""
    below, count = Fraction(0), 0
    while below <= probability:
        below += math.comb(trials, count) * share**count * (1 - share) ** (trials - count)
        count += 1
    return count - 1


def share_interval(successes: int, trials: int, probability: float) -> tuple[float, float]:
    """Shares of which one that has this many successes lies outside with at most this probability (Chernoff)."""
    limit, seen = math.log(2 / probability) / trials, successes / trials
    ends = []
    for near, far in ((seen, 0.0), (seen, 1.0)):
        for _ in range(60):
            middle = (near + far) / 2
            near, far = (middle, far) if relative_entropy(seen, middle) <= limit else (near, middle)
        ends.append(far)
    return ends[0], ends[1]
