"""download: files by the hash of their content, within limits."""

from __future__ import annotations

from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import pytest

from pipelines.fetch import Page
from pipelines.fetch.files import FileFolder, FileNotKept
from pipelines.planning.context import RunContext
from tests.support.pipelines import Run
from tests.support.site import Site

FILE, LARGE = "%PDF-1.7", "x" * 2000


def make_page(body: bytes) -> Page:
    return Page("http://a.test/", "http://a.test/", 200, None, "text/plain", None, body, datetime.now(UTC))


def test_files_are_kept_by_their_hash_once(run: Run, site: Site, tmp_path: Path) -> None:
    pages = {"/a.pdf": FILE, "/b.pdf": FILE, "/large": LARGE}
    base = site.serve(pages, {"/a.pdf": "application/pdf", "/b.pdf": "application/pdf"})
    addresses = [f"{base}{path}" for path in ("/a.pdf", "/b.pdf", "/large", "/missing", "/a.pdf")]
    (tmp_path / "in.csv").write_text("\n".join(["url,name", *(f"{each},n" for each in addresses), ",none"]))
    text = f"""
pipeline:
- {{stage: load_csv, args: ["{tmp_path}/in.csv"]}}
- {{stage: download, args: [$url, {{maxBytes: 1000}}]}}
- {{stage: extract, args: [{{method: code, as: content}}]}}
spindle: {{keepColumns: [_error], maxFailureRatio: 1}}
"""
    rows = run(text, RunContext(files=FileFolder(str(tmp_path / "files"), "files")))
    digest = sha256(FILE.encode()).hexdigest()
    kept = (f"files/{digest}", "application/pdf", len(FILE), digest, FILE)
    names = ("_path", "_type", "_bytes", "_sha256", "content")
    assert [tuple(row[name] for name in names) for row in rows] == [kept, kept, *[(None,) * 5] * 2, kept, (None,) * 5]
    assert [row["_error"] is None for row in rows] == [True, True, False, False, True, True]
    assert {file.name: file.read_text() for file in (tmp_path / "files").iterdir() if file.name[0] != "."} == {
        digest: FILE
    }
    assert site.requests["/a.pdf"] == 1


def test_all_files_of_a_run_have_a_limit(tmp_path: Path) -> None:
    folder = FileFolder(str(tmp_path / "files"), "files", max_bytes=10)
    folder.add(make_page(b"12345678"))
    folder.add(make_page(b"12345678"))
    with pytest.raises(FileNotKept):
        folder.add(make_page(b"123"))
    assert folder.add(make_page(b"12"))["_bytes"] == 2


def test_a_folder_that_cannot_be_written_is_an_error_of_the_row(tmp_path: Path) -> None:
    (tmp_path / "files").write_text("")
    with pytest.raises(FileNotKept):
        FileFolder(str(tmp_path / "files"), "files").add(make_page(b"1"))
