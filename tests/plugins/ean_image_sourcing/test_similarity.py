"""imageSimilarity: scores of images on both runners, and bytes that are no images."""

from __future__ import annotations

from datetime import UTC, datetime
from hashlib import sha256
from itertools import combinations
from pathlib import Path

import pytest
from PIL import Image

from pipelines.contract.context import RunContext
from pipelines.fetch.files import FileFolder
from plugins.ean_image_sourcing.pictures import PictureRefused, read_picture
from plugins.ean_image_sourcing.scores import compare_hashes
from tests.plugins.ean_image_sourcing.images import SVG, draw_product, encode_image, make_photo
from tests.support.pipelines import Run, load_table
from tests.support.site import Site

STAGE = "- {{stage: imageSimilarity, args: [{{{arguments}}}]}}\nspindle: {{keepColumns: [_error]}}"
TYPES = {"/lamp.jpg": "image/jpeg", "/lamp.png": "image/png"}
CSV = """ean,image_url,known
1,{0}/lamp.jpg,{0}/cup.jpg
2,{0}/cup.jpg,
1,{0}/gone.jpg,{0}/cup.jpg
1,{0}/cup.jpg,{0}/cup.jpg
1,{0}/lamp.png,{0}/cup.jpg
1,{0}/tiny.webp,{0}/cup.jpg
,{0}/cup.jpg,
1,{0}/page.jpg,{0}/cup.jpg
1,{0}/blank.png,{0}/cup.jpg
1,,
"""


def serve_images(site: Site) -> str:
    return site.serve(
        {
            "/lamp.jpg": make_photo(1, quality=60),
            "/lamp.png": make_photo(1, "PNG", (800, 600)),
            "/tiny.webp": make_photo(1, "WEBP", (80, 60)),
            "/cup.jpg": make_photo(2),
            "/page.jpg": "<html><body>Image not found</body></html>",
            "/blank.png": encode_image(Image.new("RGB", (200, 200), "grey"), "PNG"),
            "/gone.jpg": 404,
        }
    )


def test_candidates_that_agree_score_highest(run: Run, site: Site, tmp_path: Path) -> None:
    base = serve_images(site)
    text = load_table(tmp_path, CSV.format(base), STAGE.format(arguments="keep: true"))
    began, kept = datetime.now(UTC), FileFolder(str(tmp_path / "kept"), "kept")
    rows = run(text, RunContext(files=FileFolder(str(tmp_path / "files"), "files"), kept=kept))
    shown = [(row["ean"], (row["image_url"] or "").removeprefix(base), row["image_reasons"]) for row in rows]
    assert [(ean, path) for ean, path, _ in shown] == [
        *(("1", path) for path in ("/lamp.jpg", "/lamp.png", "/tiny.webp", "/cup.jpg")),
        *(("1", path) for path in ("/blank.png", "/gone.jpg", "/page.jpg", "")),
        ("2", "/cup.jpg"),
        (None, "/cup.jpg"),
    ]
    scores = [row["image_score"] for row in rows]
    assert min(scores[:2]) > 0.9
    assert 0.4 < scores[2] < 0.5
    assert scores[3] < 0.5
    assert scores[4:] == [0.0, 0.0, 0.0, None, 0.5, 0.5]
    assert shown[0][2] == ["agrees with 2 of 3 other images"]
    assert [reasons[-1] for _, _, reasons in shown[2:]] == [
        "is small: 80 x 60 pixels",
        "agrees with 0 of 3 other images",
        "shows a single shade",
        "is a dead link",
        "is no usable image",
        "has no image",
        *["is the only image, so nothing confirms it"] * 2,
    ]
    assert f"{base} gave no answer: it answered 404" in rows[5]["_error"]
    assert rows[6]["_error"].endswith("cannot be used: it is HTML, SVG or XML and no image of pixels")
    assert (rows[0]["image_type"], rows[0]["image_width"], rows[0]["image_height"]) == ("image/jpeg", 400, 300)
    assert [row["image_status"] for row in rows] == [*["usable"] * 5, "dead", "unusable", None, *["usable"] * 2]
    assert all(began <= datetime.fromisoformat(row["image_checked_at"]) for row in rows if row["image_status"])
    assert not (tmp_path / "files").exists()
    written = {each.name: each.stat().st_ino for each in (tmp_path / "kept").iterdir()}
    run(text, RunContext(kept=kept))
    assert {each.name: each.stat().st_ino for each in (tmp_path / "kept").iterdir()} == written
    for row in rows[:2]:
        file = tmp_path / "kept" / row["image_sha256"]
        assert sha256(file.read_bytes()).hexdigest() == row["image_sha256"]
        with Image.open(tmp_path / "kept" / row["image_thumbnail"]) as thumbnail:
            assert thumbnail.size == (160, 120)
    assert site.requests["/cup.jpg"] <= 4  # once in each task of Spark, and in each run


def test_a_reference_decides_and_bad_images_are_dropped(run: Run, site: Site, tmp_path: Path) -> None:
    base = serve_images(site)
    text = load_table(tmp_path, CSV.format(base), STAGE.format(arguments="reference_field: $known, min_score: 0.4"))
    rows = run(text)
    assert [(row["ean"], row["image_url"].removeprefix(base), row["image_score"]) for row in rows] == [
        ("1", "/cup.jpg", 1.0),
        ("2", "/cup.jpg", 0.5),
        (None, "/cup.jpg", 0.5),
    ]
    assert rows[0]["image_reasons"] == ["is 100% similar to the reference image"]
    first = run(load_table(tmp_path, CSV.format(base), STAGE.format(arguments="limit: 1")))
    assert [row["image_url"].removeprefix(base) for row in first] == ["/lamp.jpg", "/cup.jpg", "/cup.jpg"]


def test_products_are_scored_whole_beyond_a_window(run: Run, site: Site, tmp_path: Path) -> None:
    base = serve_images(site)
    lines = [f"{at},{base}/{name}" for name in ("cup.jpg", "lamp.jpg", "lamp.png") for at in range(200)]
    rows = run(load_table(tmp_path, "\n".join(["ean,image_url", *lines]), STAGE.format(arguments="limit: 2")))
    assert [row["ean"] for row in rows] == [str(at) for at in range(200) for _ in range(2)]
    assert {row["image_reasons"][0] for row in rows} == {"agrees with 1 of 2 other images"}
    assert site.requests["/lamp.jpg"] <= 2


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (SVG, "HTML, SVG or XML"),
        (encode_image(Image.new("1", (20_000, 20_000)), "PNG"), "pixels"),
        (encode_image(Image.new("1", (9_000, 9_000)), "PNG"), "9,000 x 9,000 pixels"),
        (make_photo(1)[:2_000], "damaged"),
        (make_photo(1, "PNG")[:2_000], "damaged"),
        (make_photo(1, "TIFF"), "no JPEG"),
        (b"", "damaged"),
    ],
    ids=["svg", "bomb", "huge", "cut-jpeg", "cut-png", "tiff", "empty"],
)
def test_bytes_that_are_no_image_are_refused(body: bytes, reason: str) -> None:
    with pytest.raises(PictureRefused, match=reason):
        read_picture(body)


@pytest.mark.long
def test_hashes_tell_products_apart_and_know_them_again() -> None:
    hashes = [read_picture(make_photo(seed)).hash or 0 for seed in range(12)]
    unlike = [compare_hashes(one, other) for one, other in combinations(hashes, 2)]
    assert max(unlike) < 0.6
    for seed, known in enumerate(hashes):
        dark = draw_product(seed).point(lambda value: value * 0.8)
        for body in (make_photo(seed, "WEBP", (900, 700)), make_photo(seed, quality=20), encode_image(dark)):
            assert compare_hashes(read_picture(body).hash or 0, known) > 0.85
