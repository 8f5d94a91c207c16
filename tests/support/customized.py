"""A service as an operator extends it: a code location beside Spindle's, and a package index."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.support.service import CLONE, Service, serve_service

PAGE = CLONE / "docs" / "dagster.md"
BLOCK = re.compile(r"```(?:python|yaml)\n# (\S+)\n(.*?)```", re.DOTALL)


@contextmanager
def serve_customized(folder: Path) -> Generator[Service]:
    """Run a service with the code location of docs/dagster.md in `reports`, and the wheels in `index`."""
    reports, index = folder / "reports", folder / "index"
    for each in (reports, index):
        each.mkdir()
    for name, text in BLOCK.findall(PAGE.read_text()):
        (reports / name).write_text(text)
    own = {"SPINDLE_DAGSTER_WORKSPACE": str(reports / "workspace.yaml"), "SPINDLE_PACKAGE_INDEX": str(index)}
    with serve_service(folder, own) as service:
        yield service
