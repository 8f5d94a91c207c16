"""Scores of the image candidates of one product, from 0 to 1, with their reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from plugins.ean_image_sourcing.pictures import HASH_BITS, Picture

_UNRELATED = HASH_BITS // 2  # bits that differ between two images that have nothing in common
_AGREES = 0.8  # a similarity from which two images show the same
_SMALL_SIDE = 100  # pixels; icons, and the pixels that count visitors
_SMALL_FACTOR = 0.5
_ALONE = 0.5  # of a candidate that nothing can be compared with
_MOST_HASHES = 500  # of one product that are compared, the most frequent ones


@dataclass(frozen=True, slots=True)
class Score:
    """The score of a candidate and short sentences that say how it came about."""

    value: float
    reasons: tuple[str, ...]


def compare_hashes(one: int, other: int) -> float:
    """Return the similarity of two images by their hashes: 1 for the same, 0 for unrelated ones."""
    return 1 - min((one ^ other).bit_count(), _UNRELATED) / _UNRELATED


def score_candidates(candidates: Sequence[Picture], reference: Picture | None) -> list[Score]:
    """Return the scores of the candidates of one product.

    With a reference a score is the similarity to it. Otherwise it is the mean similarity to the nearer half of the
    other candidates, so that images that most of them agree on score highest.
    """
    hashes = Counter(each.hash for each in candidates if each.hash is not None)
    compared = hashes.most_common(_MOST_HASHES)
    if reference is not None and reference.hash is not None:
        known = {each: _score_by_reference(each, reference.hash) for each in hashes}
    else:
        known = {each: _score_by_agreement(each, compared) for each in hashes}
    return [_limit(each, known.get(each.hash) if each.hash is not None else None) for each in candidates]


def _score_by_reference(candidate: int, reference: int) -> Score:
    similarity = compare_hashes(candidate, reference)
    return Score(similarity, (f"is {similarity:.0%} similar to the reference image",))


def _score_by_agreement(candidate: int, hashes: Sequence[tuple[int, int]]) -> Score:
    similarities: list[float] = []
    for each, count in hashes:
        similarities += [compare_hashes(candidate, each)] * (count - (each == candidate))
    if not similarities:
        return Score(_ALONE, ("is the only image, so nothing confirms it",))
    similarities.sort(reverse=True)
    nearer = similarities[: (len(similarities) + 1) // 2]
    agreeing = sum(each >= _AGREES for each in similarities)
    return Score(sum(nearer) / len(nearer), (f"agrees with {agreeing} of {len(similarities)} other images",))


def _limit(picture: Picture, score: Score | None) -> Score:
    """Return the score less the deductions for the image itself."""
    if score is None:
        return Score(0.0, ("shows a single shade",))
    if min(picture.width, picture.height) >= _SMALL_SIDE:
        return Score(round(score.value, 4), score.reasons)
    small = f"is small: {picture.width} x {picture.height} pixels"
    return Score(round(score.value * _SMALL_FACTOR, 4), (*score.reasons, small))
