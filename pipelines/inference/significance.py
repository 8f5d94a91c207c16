"""Whether two counts differ by more than chance: Fisher's exact test, one-sided, at stated error rates."""

from __future__ import annotations

import math

from pipelines.inference.field_counts import Share

ERROR_RATE = 1e-5  # of one measure of one field in a run
_ERROR_RATE_OF_ALL = 1e-3  # where all pages are doubtful: among more than 20 pages far below the other by itself


def is_more(then: Share, now: Share, looks: int = 1) -> bool:
    """Return whether doubtful pages are more frequent than before; `looks` are the stretches that were looked at."""
    return _has_larger_share(then, now) and find_probability(then, now) * max(looks, 1) < ERROR_RATE


def is_all(then: Share, now: Share) -> bool:
    """Return whether all pages are doubtful, where none or few were before: then fewer pages are enough."""
    is_whole = 0 < now.of == now.doubted
    return is_whole and _has_larger_share(then, now) and find_probability(then, now) < _ERROR_RATE_OF_ALL


def _has_larger_share(then: Share, now: Share) -> bool:
    return now.of > 0 and then.of > 0 and now.doubted * then.of > then.doubted * now.of


def find_probability(then: Share, now: Share) -> float:
    """Return the probability that so few of all doubtful pages are among the earlier ones, if both are of one kind."""
    doubted, pages = then.doubted + now.doubted, then.of + now.of
    whole = _log_choose(pages, doubted)
    total = 0.0
    for count in range(then.doubted, max(doubted - now.of, 0) - 1, -1):
        part = math.exp(_log_choose(then.of, count) + _log_choose(now.of, doubted - count) - whole)
        total += part
        if part < total * 1e-12:
            break
    return total


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
