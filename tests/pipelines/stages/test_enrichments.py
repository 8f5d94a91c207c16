"""Stages that rate, normalise and choose rows: sentiment and its sums, prices, matching, countries, echo."""

from __future__ import annotations

import logging
import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer  # pyright: ignore[reportMissingTypeStubs]

from pipelines.errors import PipelineError, RunError
from pipelines.pipeline import Pipeline, check_yaml
from pipelines.spark.run import Run as EngineRun
from pipelines.stages.echo import Echo
from pipelines.stages.sentiment import compute_score
from tests.support.pipelines import Rows, Run

REVIEWS = """product,text,date,seen on
lamp,I love it,2026-02-03,03.02.2026
cup,Terrible and ugly,2026-01-31,31.01.2026
lamp,It is a lamp,2026-02-28T10:00:00Z,28.02.2026
lamp,,2026-02-01,01.02.2026
cup,Not good,soon,soon
"""
Pipe = str


@pytest.fixture
def load(tmp_path: Path) -> Pipe:
    (tmp_path / "in.csv").write_text(REVIEWS)
    return f"pipeline:\n- {{stage: load_csv, args: [{tmp_path}/in.csv]}}\n"


def table(run: Run, tmp_path: Path, csv: str, stages: str) -> Rows:
    (tmp_path / "table.csv").write_text(csv)
    return run(f"pipeline:\n- {{stage: load_csv, args: [{tmp_path}/table.csv]}}\n{stages}")


@pytest.mark.parametrize("call", ["{stage: sentiment, args: [text]}", "{stage: Sentiment, args: {column: $text}}"])
def test_sentiment_scores_and_labels_each_row(run: Run, load: Pipe, call: str) -> None:
    rows = run(load + f"- {call}")
    assert [row["sentiment_label"] for row in rows] == ["positive", "negative", "neutral", None, "negative"]
    assert [row["sentiment_score"] for row in rows] == pytest.approx([0.6369, -0.7506, 0.0, None, -0.3412])


def test_a_score_is_vaders() -> None:
    vader = SentimentIntensityAnalyzer()
    words = "good bad not never so this kind of no nor least at very the bomb to die for but GREAT without doubt 😀 x !"
    chosen = random.Random(4)
    for _ in range(500):
        text = " ".join(chosen.choices(words.split(), k=chosen.randrange(20)))
        assert compute_score(text) == vader.polarity_scores(text)["compound"]


def test_a_word_is_rated_with_only_its_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[int] = []
    check = SentimentIntensityAnalyzer._special_idioms_check  # pyright: ignore[reportPrivateUsage]

    def spying(valence: float, words: list[str], place: int) -> float:
        given.append(len(words))
        return check(valence, words, place)

    monkeypatch.setattr(SentimentIntensityAnalyzer, "_special_idioms_check", staticmethod(spying))
    assert compute_score("not good at all " * 500) < 0
    assert max(given) == 6


def test_an_emoji_is_as_long_as_its_name() -> None:
    assert compute_score("🏠" * 1000 + " horrible") == compute_score("horrible")
    assert compute_score("🏠" * 9000 + " horrible") == 0


@pytest.mark.parametrize(
    ("call", "null"),
    [
        ("{stage: sentiment_monthly, args: [text, date]}", 1),
        ("{stage: sentimentMonthly, args: [text]}", 1),
        ("{stage: sentiment_monthly, args: {column: text, date: $seen on, dateFormat: dd.MM.yyyy}}", 1),
    ],
)
def test_months_are_in_order_with_averages_and_counts(run: Run, load: Pipe, call: str, null: int) -> None:
    january, february, unknown = run(load + f"- {call}")
    assert list(january) == ["month", "rows", "sentiment_score", "positive", "neutral", "negative"]
    assert list(january.values()) == ["2026-01", 1, pytest.approx(-0.7506), 0, 0, 1]
    assert list(february.values()) == ["2026-02", 3, pytest.approx(0.6369 / 2), 1, 1, 0]
    assert list(unknown.values()) == [None, 1, pytest.approx(-0.3412), 0, 0, 1]


def test_months_need_a_column_of_dates(run: Run, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"line 3: sentiment_monthly a: no column contains dates.*there are a, b"):
        table(run, tmp_path, "a,b\n1,2\n", "- {stage: sentiment_monthly, args: [a]}")


@pytest.mark.parametrize(
    "call", ["{stage: aggregatesentiment, args: [product]}", "{stage: aggregate_sentiment, args: {columns: [product]}}"]
)
def test_groups_are_in_the_order_of_their_first_rows(run: Run, load: Pipe, call: str) -> None:
    lamp, cup = run(load + f"- {{stage: sentiment, args: [text]}}\n- {call}")
    assert list(lamp.values()) == ["lamp", 3, pytest.approx(0.6369 / 2), 1, 1, 0]
    assert list(cup.values()) == ["cup", 2, pytest.approx(-1.0918 / 2), 0, 0, 2]


@pytest.mark.parametrize(
    ("call", "found"),
    [
        ("{stage: priceNormalize, args: [price]}", ["EUR", "GBP", "USD", None, None, None]),
        ("{stage: price_normalize, args: {column: $price, currency: cad}}", ["EUR", "GBP", "CAD", "CAD", "CAD", None]),
    ],
)
def test_prices_become_amounts_and_currencies(run: Run, tmp_path: Path, call: str, found: list[str | None]) -> None:
    csv = 'price\n"1.299,00 €"\n"£1,09 incl. 20% VAT"\n$5\n12.5\n100 kr\nsold out\n'
    if "currency" in call:
        found = [*found[:4], None, None]
    rows = table(run, tmp_path, csv, f"- {call}")
    assert [row["price_amount"] for row in rows] == [1299.0, 1.09, 5.0, 12.5, 100.0, None]
    assert [row["price_currency"] for row in rows] == found


def test_prices_in_long_texts(run: Run, tmp_path: Path) -> None:
    words = "Lorem ipsum dolor sit amet. " * 40
    csv = f"price\n{words} only CHF 12.50! {words}\n{'1' * 4000}x\n"
    rows = table(run, tmp_path, csv, "- {stage: priceNormalize, args: [price]}")
    assert [(row["price_amount"], row["price_currency"]) for row in rows] == [(12.5, "CHF"), (None, None)]


def test_countries_in_every_spelling(run: Run, tmp_path: Path) -> None:
    csv = "n,country\n1,Germany\n2,DE\n3, deu \n4,uk\n5,France\n6,\n7,gbr\n8,Deutschland\n9,Korea\n"
    for call in ("[country, germany, GB]", "{column: $country, countries: [deu, United Kingdom]}"):
        rows = table(run, tmp_path, csv, f"- {{stage: filter_country, args: {call}}}")
        assert [row["n"] for row in rows] == ["1", "2", "3", "4", "7"]


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
        rows = table(run, tmp_path, csv, f"- {{stage: enrichMatchingScore, args: {args}}}")
        assert [row["matching_score"] for row in rows] == [1.0, 1.0, 0.0, 0.9, 0.5, 0.25, 0.0]


def test_echo_logs_the_first_rows_and_passes_all_on(run: Run, load: Pipe, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "pipelines.stages.echo"):
        rows = run(load + "- {stage: echo, args: [2, loaded]}\n- {stage: Echo, args: {rows: 1}}")
    assert len(rows) == 5
    logged = [(line.fields["label"], line.fields["number"], line.fields["row"]["text"]) for line in caplog.records]  # type: ignore[attr-defined]
    assert logged == [("loaded", 1, "I love it"), ("loaded", 2, "Terrible and ugly"), (None, 1, "I love it")]


@pytest.mark.parametrize(
    ("args", "label", "rows"),
    [
        ("[loaded]", "loaded", 10),
        ("[5]", None, 5),
        ("['5']", None, 5),
        ("[5, loaded]", "loaded", 5),
        ("[loaded, 5]", "loaded", 5),
        ("[{label: loaded, rows: 5}]", "loaded", 5),
        ("[{label: loaded}]", "loaded", 10),
        ("loaded", "loaded", 10),
        ("[]", None, 10),
    ],
)
def test_echo_takes_a_label_a_number_or_both(load: Pipe, args: str, label: str | None, rows: int) -> None:
    stage = Pipeline.from_yaml(load + f"- {{stage: echo, args: {args}}}").plan_open().steps[1].stage
    assert isinstance(stage, Echo)
    assert (stage.label, stage.rows) == (label, rows)


def test_echo_shows_its_rows_in_the_step(load: Pipe, spark: SparkSession) -> None:
    plan = Pipeline.from_yaml(load + "- {stage: echo, args: [loaded]}\n- {stage: limit, args: [0]}").plan()
    with EngineRun(plan, preview_rows=2) as run:
        run.collect(spark)
        shown = run.get_preview("s02_echo")
    assert [row["text"] for row in shown] == ["I love it", "Terrible and ugly"]


def test_echo_logs_its_label_even_without_rows(run: Run, load: Pipe, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "pipelines.stages.echo"):
        run(load + "- {stage: limit, args: [0]}\n- {stage: echo, args: [empty]}")
    assert [line.fields for line in caplog.records] == [{"label": "empty", "number": 0, "row": None}]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        ("{stage: sentiment}", "sentiment: 'column' is missing"),
        ("{stage: sentiment, args: [text, x]}", "sentiment: too many arguments; it takes column"),
        (
            "{stage: sentiment, args: {column: text, colunm: x}}",
            "sentiment: unknown argument 'colunm'; did you mean column?",
        ),
        ("{stage: sentimnt, args: [text]}", "unknown stage 'sentimnt'; did you mean sentiment"),
        ("{stage: aggregatesentiment, args: []}", "aggregatesentiment: 'columns' is missing"),
        ("{stage: priceNormalize, args: [p, EURO]}", "priceNormalize: unknown currency 'EURO'; did you mean EUR"),
        (
            "{stage: filter_country, args: [c, Germny]}",
            "filter_country: unknown country 'Germny'; did you mean Germany",
        ),
        (
            "{stage: filter_country, args: [c, Schweden]}",
            "filter_country: unknown country 'Schweden'; write its English name or its code of ISO 3166",
        ),
        ("{stage: filter_country, args: [c]}", "filter_country: 'countries' is missing"),
        (
            "{stage: enrichMatchingScore, args: [{input_ean_field: a}]}",
            "enrichMatchingScore: 'iextract_prefix' is missing",
        ),
        ("{stage: echo, args: [0]}", "echo: 'rows': input should be greater than or equal to 1"),
        ("{stage: echo, args: [loaded, many]}", "echo: 'rows' must be a whole number"),
    ],
)
def test_wrong_arguments_are_errors_with_their_line(load: Pipe, call: str, problem: str) -> None:
    with pytest.raises(PipelineError) as error:
        check_yaml(load + f"- {call}")
    (found,) = error.value.problems
    assert found.line == 3
    assert found.message.startswith(problem)


def test_a_missing_column_is_an_error_before_any_text_is_rated(run: Run, load: Pipe) -> None:
    with pytest.raises(RunError, match=r"line 3: sentiment txt: there is no column 'txt' here; did you mean text\?"):
        run(load + "- {stage: sentiment, args: [txt]}")
    with pytest.raises(RunError, match="there is no column 'sentiment_score' here"):
        run(load + "- {stage: aggregatesentiment, args: [product]}")
