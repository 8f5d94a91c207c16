"""Rows selected by country."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.pipelines import REVIEWS, Run, find_problem, load_table


def test_countries_in_every_spelling(run: Run, tmp_path: Path) -> None:
    csv = "n,country\n1,Germany\n2,DE\n3, deu \n4,uk\n5,France\n6,\n7,gbr\n8,Deutschland\n9,Korea\n"
    for call in ("[country, germany, GB]", "{column: $country, countries: [deu, United Kingdom]}"):
        rows = run(load_table(tmp_path, csv, f"- {{stage: filter_country, args: {call}}}"))
        assert [row["n"] for row in rows] == ["1", "2", "3", "4", "7"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ("[c, Germny]", "unknown country 'Germny'; did you mean Germany"),
        ("[c, Schweden]", "unknown country 'Schweden'; write its English name or its code of ISO 3166"),
        ("[c]", "'countries' is missing"),
    ],
)
def test_wrong_arguments_are_problems_with_their_line(tmp_path: Path, args: str, message: str) -> None:
    problem = find_problem(load_table(tmp_path, REVIEWS, f"- {{stage: filter_country, args: {args}}}"))
    assert problem.line == 3
    assert problem.message.startswith(f"filter_country: {message}")
