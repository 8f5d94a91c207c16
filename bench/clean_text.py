"""Main text and Markdown beside two peers on a labelled set, and PDF beside a bare loop: python -m bench.clean_text SET

SET is a clone of github.com/scrapinghub/article-extraction-benchmark (MIT), whose pages are not in this repository.
The peers are trafilatura, which is installed, and readability-lxml: `uv pip install readability-lxml`.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path

import pypdfium2

from bench.service import describe_machine
from pipelines.documents import readers
from pipelines.extract.clean_text import html_to_article, html_to_markdown

_WORD = re.compile(r"\w+")
_TARGET = re.compile(r"\]\([^)]*\)")
Read = Callable[[str], str | None]


def main(folder: str) -> None:
    print(describe_machine())
    root = Path(folder)
    truth: Mapping[str, Mapping[str, str]] = json.loads((root / "ground-truth.json").read_text())
    pages = {
        path.name.partition(".")[0]: gzip.decompress(path.read_bytes()).decode() for path in root.glob("html/*.gz")
    }
    for name, read in {**_build_ours(), **_build_peers()}.items():
        start = time.process_time()
        texts = {key: read(html) or "" for key, html in pages.items()}
        speed = len(pages) / (time.process_time() - start)
        for half in ("all", "first half", "second half"):
            keys = [key for key in texts if half == "all" or half == _choose_half(key)]
            precision, recall = score([(truth[key].get("articleBody", ""), texts[key]) for key in keys])
            f1 = 2 * precision * recall / (precision + recall)
            print(f"{name:24} {half:12} F1 {f1:.3f} precision {precision:.3f} recall {recall:.3f} {speed:6.0f} pages/s")
    measure_pdf()


def _choose_half(key: str) -> str:
    """Return the half of a page by its hash: rules are chosen on the first, and reported for the second too."""
    return "first half" if sha256(key.encode()).digest()[-1] % 2 == 0 else "second half"


def _build_ours() -> dict[str, Read]:
    return {
        "article": lambda html: str((html_to_article(html, "") or {}).get("text") or ""),
        "markdown": lambda html: _TARGET.sub("]", html_to_markdown(html, "", True) or ""),
    }


def _build_peers() -> dict[str, Read]:
    import trafilatura
    from lxml.html import fromstring

    peers: dict[str, Read] = {
        "trafilatura": lambda html: trafilatura.extract(html, include_comments=False),
        "trafilatura's Markdown": lambda html: _TARGET.sub(
            "]",
            trafilatura.extract(
                html, include_comments=False, output_format="markdown", include_links=True, include_images=True
            )
            or "",
        ),
    }
    try:
        from readability import Document  # pyright: ignore[reportMissingImports]
    except ImportError:
        return peers
    return {**peers, "readability-lxml": lambda html: str(fromstring(Document(html).summary(True)).text_content())}


def score(pairs: list[tuple[str, str]]) -> tuple[float, float]:
    """Return mean precision and recall of shingles of four words, as the set's own evaluate.py."""
    precisions, recalls = list[float](), list[float]()
    for true, found in pairs:
        wanted, given = _count_shingles(true), _count_shingles(found)
        both = sum((wanted & given).values())
        precisions.append(both / sum(given.values()))
        recalls.append(both / sum(wanted.values()))
    return statistics.mean(precisions), statistics.mean(recalls)


def _count_shingles(text: str) -> Counter[tuple[str, ...]]:
    words = _WORD.findall(text)
    return Counter(tuple(words[at : at + 4]) for at in range(max(1, len(words) - 3)))


def measure_pdf(pages: int = 1000, rounds: int = 3) -> None:
    body = _make_pdf(pages)
    bare, ours = list[float](), list[float]()
    for _ in range(rounds):
        start = time.process_time()
        document = pypdfium2.PdfDocument(body)
        for page in document:
            text = page.get_textpage()
            text.get_text_range()
            text.close()
            page.close()
        bare.append(pages / (time.process_time() - start))
        start = time.process_time()
        batch = readers.read_batch({"body": body, "name": "", "tables": False, "first": 1, "last": None})
        while batch["more"]:
            batch = readers.read_batch({})
        ours.append(pages / (time.process_time() - start))
    print(f"PDF: {statistics.median(ours):,.0f} pages/s, bare pypdfium2 {statistics.median(bare):,.0f}")


def _make_pdf(pages: int) -> bytes:
    from tests.support.documents import make_pdf

    one = make_pdf("Lorem ipsum dolor sit amet consectetur. " * 60)
    whole, page = pypdfium2.PdfDocument.new(), pypdfium2.PdfDocument(one)
    for _ in range(pages):
        whole.import_pages(page)
    file = io.BytesIO()
    whole.save(file)
    return file.getvalue()


if __name__ == "__main__":
    main(sys.argv[1])
