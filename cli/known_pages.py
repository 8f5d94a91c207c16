"""The known pages of pipelines that run without a server, in the folder of `spindle run --cache`."""

from __future__ import annotations

import shutil
from hashlib import sha256
from pathlib import Path
from uuid import uuid4

from pipelines.contract.request import KnownPagesPlace

_FOLDER = "spindle-known"
_NEW = "new-"


def open_known_pages(cache: Path, pipeline: Path) -> KnownPagesPlace:
    """Return where the known pages of a pipeline's file are, and where this run writes them."""
    job = sha256(str(pipeline.resolve()).encode()).hexdigest()[:32]
    folder = cache.absolute() / _FOLDER / job
    kept = _list_kept(folder)
    return KnownPagesPlace(job, str(folder / f"{_NEW}{uuid4().hex}"), str(kept[-1]) if kept else None)


def keep_known_pages(place: KnownPagesPlace) -> None:
    """Make the pages that a run has written the known ones, once its rows are written."""
    written = Path(place.folder)
    kept = _list_kept(written.parent)
    number = int(kept[-1].name) + 1 if kept else 1
    written.rename(written.parent / f"{number:09d}")
    for each in kept:
        shutil.rmtree(each, ignore_errors=True)


def _list_kept(folder: Path) -> list[Path]:
    return sorted(each for each in folder.glob("*") if each.name.isdecimal())
