"""Sentiment of each row, by month and by group."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer  # pyright: ignore[reportMissingTypeStubs]

from pipelines.errors import RunError
from pipelines.extract.rows import Row
from pipelines.planning.stage import STAGES
from tests.support.pipelines import REVIEWS, Run, find_problem, load_table
from tests.support.tools import TOOLS


def rate(text: str) -> float:
    """Return the score that the stage gives to a text."""
    worker = STAGES.find("sentiment").thing(column="text").work(TOOLS)
    (row,) = worker(Row({"text": text}, (0,)))
    return row.values["sentiment_score"]


@pytest.mark.parametrize("call", ["{stage: sentiment, args: [text]}", "{stage: Sentiment, args: {column: $text}}"])
def test_sentiment_scores_and_labels_each_row(run: Run, tmp_path: Path, call: str) -> None:
    rows = run(load_table(tmp_path, REVIEWS, f"- {call}"))
    assert [row["sentiment_label"] for row in rows] == ["positive", "negative", "neutral", None, "negative"]
    assert [row["sentiment_score"] for row in rows] == pytest.approx([0.6369, -0.7506, 0.0, None, -0.3412])


def test_a_score_is_vaders() -> None:
    vader = SentimentIntensityAnalyzer()
    words = "good bad not never so this kind of no nor least at very the bomb to die for but GREAT without doubt 😀 x !"
    chosen = random.Random(4)
    for _ in range(500):
        text = " ".join(chosen.choices(words.split(), k=chosen.randrange(1, 20)))
        assert rate(text) == vader.polarity_scores(text)["compound"]


def test_a_word_is_rated_with_only_its_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[int] = []
    check = SentimentIntensityAnalyzer._special_idioms_check  # pyright: ignore[reportPrivateUsage]

    def spying(valence: float, words: list[str], place: int) -> float:
        given.append(len(words))
        return check(valence, words, place)

    monkeypatch.setattr(SentimentIntensityAnalyzer, "_special_idioms_check", staticmethod(spying))
    assert rate("not good at all " * 500) < 0
    assert max(given) == 6


def test_an_emoji_is_as_long_as_its_name() -> None:
    assert rate("🏠" * 1000 + " horrible") == rate("horrible")
    assert rate("🏠" * 9000 + " horrible") == 0


@pytest.mark.parametrize(
    "call",
    [
        "{stage: sentiment_monthly, args: [text, date]}",
        "{stage: sentimentMonthly, args: [text]}",
        "{stage: sentiment_monthly, args: {column: text, date: $seen on, dateFormat: dd.MM.yyyy}}",
    ],
)
def test_months_are_in_order_with_averages_and_counts(run: Run, tmp_path: Path, call: str) -> None:
    january, february, unknown = run(load_table(tmp_path, REVIEWS, f"- {call}"))
    assert list(january) == ["month", "rows", "sentiment_score", "positive", "neutral", "negative"]
    assert list(january.values()) == ["2026-01", 1, pytest.approx(-0.7506), 0, 0, 1]
    assert list(february.values()) == ["2026-02", 3, pytest.approx(0.6369 / 2), 1, 1, 0]
    assert list(unknown.values()) == [None, 1, pytest.approx(-0.3412), 0, 0, 1]


def test_months_need_a_column_of_dates(run: Run, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"line 3: sentiment_monthly a: no column contains dates.*there are a, b"):
        run(load_table(tmp_path, "a,b\n1,2\n", "- {stage: sentiment_monthly, args: [a]}"))


@pytest.mark.parametrize(
    "call", ["{stage: aggregatesentiment, args: [product]}", "{stage: aggregate_sentiment, args: {columns: [product]}}"]
)
def test_groups_are_in_the_order_of_their_first_rows(run: Run, tmp_path: Path, call: str) -> None:
    lamp, cup = run(load_table(tmp_path, REVIEWS, f"- {{stage: sentiment, args: [text]}}\n- {call}"))
    assert list(lamp.values()) == ["lamp", 3, pytest.approx(0.6369 / 2), 1, 1, 0]
    assert list(cup.values()) == ["cup", 2, pytest.approx(-1.0918 / 2), 0, 0, 2]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("{stage: sentiment}", "sentiment: 'column' is missing"),
        ("{stage: sentiment, args: [text, x]}", "sentiment: too many arguments; it takes column"),
        (
            "{stage: sentiment, args: {column: text, colunm: x}}",
            "sentiment: unknown argument 'colunm'; did you mean column?",
        ),
        ("{stage: sentimnt, args: [text]}", "unknown stage 'sentimnt'; did you mean sentiment"),
        ("{stage: aggregatesentiment, args: []}", "aggregatesentiment: 'columns' is missing"),
    ],
)
def test_wrong_arguments_are_problems_with_their_line(tmp_path: Path, call: str, message: str) -> None:
    problem = find_problem(load_table(tmp_path, REVIEWS, f"- {call}"))
    assert problem.line == 3
    assert problem.message.startswith(message)


def test_a_missing_column_is_an_error_before_any_text_is_rated(run: Run, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"line 3: sentiment txt: there is no column 'txt' here; did you mean text\?"):
        run(load_table(tmp_path, REVIEWS, "- {stage: sentiment, args: [txt]}"))
    with pytest.raises(RunError, match="there is no column 'sentiment_score' here"):
        run(load_table(tmp_path, REVIEWS, "- {stage: aggregatesentiment, args: [product]}"))
