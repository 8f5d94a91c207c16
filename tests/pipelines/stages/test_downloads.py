"""download: files by the hash of their content, within limits."""

from __future__ import annotations

from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import pytest

from pipelines.contract.context import RunContext
from pipelines.errors import PipelineError
from pipelines.fetch import Page
from pipelines.fetch.files import FileFolder, FileNotKept, make_file_name
from pipelines.pipeline import Pipeline
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


def test_files_have_the_names_of_their_rows_with_the_extension_of_their_type(
    run: Run, site: Site, tmp_path: Path
) -> None:
    pages = {"/1": FILE, "/2": "%PDF-2", "/3": FILE}
    base = site.serve(pages, dict.fromkeys(pages, "application/pdf"))
    rows = "\n".join([f"{base}/1,A 1", f"{base}/2,A 1", f"{base}/3,../../b", f"{base}/none,c"])
    (tmp_path / "in.csv").write_text(f"url,sku\n{rows}\n")
    text = f"""
pipeline:
- {{stage: load_csv, args: ["{tmp_path}/in.csv"]}}
- {{stage: download, args: [$url, {{name: "$sku.pdf"}}]}}
spindle: {{maxFailureRatio: 1, keepColumns: [_error]}}
"""
    for has_names in (True, False):
        folder = FileFolder(str(tmp_path / f"files-{has_names}"), "files", has_names=has_names)
        found = run(text, RunContext(files=folder))
        names = [row["_name"] for row in found]
        if has_names:
            assert sorted(names[:2], key=len)[0] == "A 1.pdf"
            assert {row["_path"] for row in found} == {*(f"files/{name}" for name in names[:3]), None}
            stored = {each.name: each.read_text() for each in Path(folder.path).glob("[!.]*")}
            assert stored == dict(zip(names, [FILE, "%PDF-2", FILE], strict=False))
        else:
            assert names == ["A 1.pdf", "A 1.pdf", "b.pdf", None]
            assert [row["_path"] for row in found[:3]] == [f"files/{row['_sha256']}" for row in found[:3]]
    assert names[2:] == ["b.pdf", None]
    stages = "[{stage: extract, args: [{selector: a, as: url}]}, {stage: download, args: [$url, {name: $sku}]}]"
    with pytest.raises(PipelineError, match="sku"):
        Pipeline.from_yaml(f"fetch: {{url: '{base}/'}}\npipeline: {stages}\n").plan()


@pytest.mark.parametrize(
    ("wanted", "media_type", "name"),
    [
        ("a.pdf", "application/pdf", "a.pdf"),
        ("a", "application/pdf", "a.pdf"),
        ("v1.2", "application/pdf", "v1.2.pdf"),
        ("a.PDF", "application/pdf", "a.PDF"),
        ("a.pdf", "text/html", "a.html"),
        ("a.jpeg", "image/jpeg", "a.jpeg"),
        ("a.bin", "application/octet-stream", "a.bin"),
        ("notes", "text/plain", "notes"),
        ("a", None, "a"),
        ("../../etc/passwd", None, "etc_passwd"),
        ("/etc/passwd", None, "etc_passwd"),
        ("..", "application/pdf", "hash.pdf"),
        ("", None, "hash"),
        (".htaccess", None, "htaccess"),
        ("a\\b:c\0d\n", None, "a_b_c_d"),
        ("evil\u202efdp.exe", None, "evil_fdp.exe"),
        ("CON.pdf", "application/pdf", "_CON.pdf"),
        ("é" * 200, "application/pdf", "é" * 88 + ".pdf"),
    ],
)
def test_names_lead_nowhere_else(wanted: str, media_type: str | None, name: str) -> None:
    assert make_file_name(wanted, media_type, "hash") == name


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
