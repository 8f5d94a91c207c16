"""Scores of extracted products against the expected ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.pipelines import REVIEWS, Run, find_problem, load_table


@pytest.mark.long
def test_matching_score_by_ean_then_by_words(run: Run, tmp_path: Path) -> None:
    csv = """ean,name,brand,x_ean,x_gtin,x_name,x_brand,x_other
4006381333931,Red Lamp,Acme,4006381333931,,Blue cup,,
4006381333931,Red Lamp,Acme,,04006381333931,,,
4006381333931,Red Lamp,Acme,5000000000000,,Red Lamp,Acme,
4006381333931,Red Lamp,Acme,,,red LAMP,acme,z
4006381333931,Red Lamp,Acme,,,Red lamp green big,,
,Red Lamp,Acme,4006381333931,,Red,Other,
4006381333931,,Acme,,,Red,,
"""
    for args in (
        "[{input_ean_field: ean, iextract_prefix: x_}]",
        "{fields: [{inputEanField: $ean, iextractPrefix: x_}]}",
    ):
        rows = run(load_table(tmp_path, csv, f"- {{stage: enrichMatchingScore, args: {args}}}"))
        assert [row["matching_score"] for row in rows] == [1.0, 1.0, 0.0, 0.9, 0.5, 0.25, 0.0]


def test_a_missing_prefix_is_a_problem(tmp_path: Path) -> None:
    text = load_table(tmp_path, REVIEWS, "- {stage: enrichMatchingScore, args: [{input_ean_field: a}]}")
    problem = find_problem(text)
    assert (problem.line, problem.message) == (3, "enrichMatchingScore: 'iextract_prefix' is missing")
