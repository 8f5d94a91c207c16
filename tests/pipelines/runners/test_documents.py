"""Documents as rows, on both runners and in a trial; files that cannot be read are rows with a sentence."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from pipelines.documents.reading import DocumentReader, UnreadDocument
from pipelines.errors import PipelineError
from pipelines.pipeline import Pipeline
from tests.support import documents as made
from tests.support.pipelines import crawl
from tests.support.runners import Runners
from tests.support.site import Site
from tests.support.trials import open_trial

EXAMPLES = Path(__file__).parents[3] / "examples/pages"
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC).replace(tzinfo=None)
ROWS = (("day", "item", "amount"), (date(2026, 3, 1), "Bolt", 12.5), (), (date(2026, 3, 2), "Nut", "n/a"))


def read(runners: Runners, text: str, **parameters: str) -> list[dict[str, Any]]:
    plan = runners.plan(text, {}, **parameters)
    outcome = runners.assert_equal(plan)
    assert outcome.failure is None
    with open_trial(plan) as trial:
        assert len([*trial.iter_rows()]) == len(outcome.preview)
    return [{name: value for name, value in row.items() if value is not None} for row in outcome.preview]


def read_parts(body: bytes, name: str = "", **pages: Any) -> list[dict[str, Any]]:
    parts = DocumentReader().read(body, name, True, **pages)
    return [{name: value for name, value in part.items() if value} for part in parts]


def test_each_format_gives_its_text(tmp_path: Path) -> None:
    (letter,) = read_parts(made.make_docx())
    assert (letter["title"], letter["text"], letter["tables"]) == (
        "Letter",
        "Before\nFee\t500 EUR\na\t1\nboth inner\t\nAfter",
        [[["a", "1"], ["both inner", None]]],
    )
    slides = [(part["page"], part["text"]) for part in read_parts(made.make_pptx())]
    assert slides == [(1, "First"), (2, "Second\nGrouped")]
    assert [part["text"] for part in read_parts(made.make_epub())] == ["# Part 1", "# Part 2"]
    assert [part["text"] for part in read_parts(made.make_odt())] == ["Head\nBody:\ta\nb  c\nNote"]
    assert [part["text"] for part in read_parts(rb"{\rtf1\ansi Hello {\b bold} \u8364? world.\par Second}")] == [
        "Hello bold € world.\nSecond"
    ]
    bill = {"title": "Bill", "author": "Acme", "created": NOON, "pages": 3}
    assert read_parts(made.make_pdf("One", "Two", "Three"), first=2, last=2) == [{**bill, "page": 2, "text": "Two"}]
    mail = read_parts(made.make_mail(b_pdf=made.make_pdf("Sum"), c_bin=b"?", d_eml=made.make_mail(a_pdf=b"")))
    assert [(part.get("part"), part.get("text"), part.get("fault")) for part in mail] == [
        (None, "See below", None),
        ("b.pdf", "Sum", None),
        ("c.bin", None, "it is no PDF, DOCX, XLSX, PPTX, EPUB, RTF, ODT or e-mail"),
        ("d.eml", "See below", None),
        ("d.eml", None, "it is empty"),
    ]
    assert mail[0]["created"] == datetime(2026, 11, 28, 10, tzinfo=UTC).replace(tzinfo=None)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (made.make_pdf("Secret", encrypted=True), "it is encrypted"),
        (made.make_pdf("Cut")[:300], "it is broken"),
        (made.make_archive(word__document_xml=bytes(600 << 20)), "it unpacks to more than 512 MiB"),
        (b"PK\x03\x04 and nothing", "it is broken"),
        (b"hello", "it is no PDF"),
        (b"", "it is empty"),
        (bytes(65 << 20), "it has more than 64 MiB"),
    ],
)
def test_a_bad_file_is_a_sentence(body: bytes, sentence: str) -> None:
    with pytest.raises(UnreadDocument, match=f"^the document cannot be read: {sentence}"):
        read_parts(body)


def test_large_files_take_bounded_memory() -> None:
    reader = DocumentReader()
    pages = reader.read(made.make_pdf(*["Lorem ipsum " * 20] * 5000), "", False)
    assert sum(part["text"].startswith("Lorem") for part in pages) == 5000
    rows = made.make_xlsx(("a",), (1,), last_row=1_000_000)
    try:
        assert len([*reader.read(rows, "", False)]) == 1
    except UnreadDocument as error:
        assert "MiB" in str(error)  # noqa: PT017 - either is right
    assert [part["text"] for part in reader.read(made.make_pdf("Next"), "", False)] == ["Next"]


@pytest.mark.long
def test_hostile_files_of_a_folder_are_sentences_beside_the_others(runners: Runners, tmp_path: Path) -> None:
    files = {
        "a.pdf": made.make_pdf(*["Lorem ipsum " * 20] * 5000),
        "b.xlsx": made.make_xlsx(("a",), (1,), last_row=1_000_000),
        "c.docx": made.make_archive(word__document_xml=bytes(600 << 20)),
        "d.pdf": made.make_pdf("Next"),
    }
    for name, body in files.items():
        (tmp_path / name).write_bytes(body)
    text = f"pipeline: [{{stage: load_documents, args: ['{tmp_path}']}}]\nspindle: {{keepColumns: [_error]}}"
    outcome = runners.assert_equal(runners.plan(text))
    rows = {row["file"]: row for row in outcome.preview}
    assert [*rows] == [*files]
    assert "it unpacks to more than 512 MiB" in rows["c.docx"]["_error"]
    assert rows["a.pdf"]["text"].startswith("Lorem")
    assert rows["d.pdf"]["text"] == "Next"


def test_documents_of_a_crawl_are_rows(runners: Runners, site: Site) -> None:
    pages = {"/a.xlsx": made.make_xlsx(*ROWS), "/b.pdf": made.make_pdf("One", "Two"), "/scan.pdf": made.make_scan()}
    site.serve({"/": "".join(f"<a href={path}>x</a>" for path in (*pages, "/none")), **pages, "/none": 404})
    links = "{stage: extract, args: [{selector: a, method: href, all: true, as: files}]}"
    options = "keepColumns: [_error, _url], maxFailureRatio: 1, robots: ignore"
    rows = read(runners, crawl(f"{site.url}/", links, "{stage: document, args: [$files]}", options=options))
    for row in rows:
        del row["files"]
    sheet, bill, scan, missing = rows[:2], rows[2], rows[3], rows[4]
    assert [(row["sheet"], row["day"], row["item"], row["amount"]) for row in sheet] == [
        ("Sales", "2026-03-01", "Bolt", "12.5"),
        ("Sales", "2026-03-02", "Nut", "n/a"),
    ]
    assert (bill["text"], bill["pages"], bill["title"]) == ("One\n\nTwo", 2, "Bill")
    assert bill["created"].startswith("2026-03-01T12:00:00")
    assert scan["_error"] == "the document needs OCR: 1 of 1 pages are images without text"
    assert missing["_error"] == "the server answered 404"


def test_all_rows_of_documents_tell_the_columns(runners: Runners, site: Site) -> None:
    rows = [(f"item {n}", n) for n in range(150)]
    pages = {
        "/2023.xlsx": made.make_xlsx(("item", "amount"), *rows, ("last", "n/a")),
        "/2024.xlsx": made.make_xlsx(("item", "amount", "area"), ("new", 1.5, 2.5)),
    }
    site.serve({"/": "".join(f"<a href={path}>x</a>" for path in pages), **pages})
    text = crawl(f"{site.url}/", "{stage: join, args: [a]}", "{stage: document}", options="keepColumns: [_error]")
    outcome = runners.assert_equal(runners.plan(text))
    assert outcome.counts is not None
    assert {errors for _, _, errors in outcome.counts.values()} == {0}
    assert [row.partition(", 'text'")[0] for row in outcome.ordered[149:]] == [
        "{'item': 'item 149', 'amount': '149', 'area': None",
        "{'item': 'last', 'amount': 'n/a', 'area': None",
        "{'item': 'new', 'amount': '1.5', 'area': 2.5",
    ]


def test_a_folder_of_invoices_is_one_table(runners: Runners, tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(made.make_pdf("Invoice 2026-7 Total 19.90"))
    (tmp_path / "b.xlsx").write_bytes(made.make_xlsx(*ROWS))
    (tmp_path / "c.pdf").write_bytes(b"%PDF-1.4 cut")
    rows = read(runners, (EXAMPLES / "invoices.yaml").read_text(), FOLDER=str(tmp_path))
    assert [row["file"] for row in rows] == ["a.pdf", "b.xlsx", "b.xlsx", "c.pdf"]
    assert (rows[0]["number"], str(rows[0]["total"])) == ("2026-7", "19.90")
    assert [row["amount"] for row in rows[1:3]] == ["12.5", "n/a"]
    assert "it is broken" in rows[3]["_error"]
    (tmp_path / "a.pdf").unlink()
    (tmp_path / "b.xlsx").unlink()
    plan = Pipeline.from_yaml(f'pipeline: [{{stage: load_documents, args: ["{tmp_path}"]}}]').plan()
    for outcome in (runners.run_locally(plan), runners.run_on_spark(plan)):
        assert outcome.failure is not None
        assert f"no document of '{tmp_path}' could be read: c.pdf: " in outcome.failure[0]


def test_times_of_a_sheet_stay_times_at_midnight() -> None:
    night = datetime(2026, 1, 2, tzinfo=UTC).replace(tzinfo=None)
    rows = read_parts(made.make_xlsx(("day", "time"), (night, night), (night, NOON)))
    assert [[value for _, value in row["cells"]] for row in rows] == [[night.date(), night], [night.date(), NOON]]


def test_headings_of_a_sheet_take_no_other_column(runners: Runners, tmp_path: Path) -> None:
    sheet = made.make_xlsx(("file", "pages", "created", 2024), ("a.txt", 300, date(2026, 1, 2), 5))
    (tmp_path / "a.xlsx").write_bytes(sheet)
    assert read(runners, f'pipeline: [{{stage: load_documents, args: ["{tmp_path}"]}}]') == [
        {
            **{"file": "a.xlsx", "sheet": "Sales", "file_1": "a.txt", "pages_2": 300.0},
            **{"created_3": "2026-01-02", "2024": 5.0},
        }
    ]


def test_what_has_no_rows_is_said(runners: Runners, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    text = f'pipeline: [{{stage: load_documents, args: ["{tmp_path}/in", {{pages: "3"}}]}}]'
    for sentence in ("has no documents", "a.pdf: the document has no page 3"):
        for outcome in (runners.run_locally(runners.plan(text)), runners.run_on_spark(runners.plan(text))):
            assert outcome.failure is not None
            assert sentence in outcome.failure[0]
        (tmp_path / "in/a.pdf").write_bytes(made.make_pdf("One", "Two"))
    with pytest.raises(PipelineError, match="end before they begin: 2-1"):
        runners.plan(text.replace('"3"', "2-1"))
