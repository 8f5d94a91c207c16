"""The story of docs/tables.md, line by line; only ports and folders are a test's own."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.bin.test_readme import paste, read_blocks, terminal
from tests.support.service import free_port


def find_cells(text: str, first: str) -> list[list[str]]:
    """Return the cells of the printed rows that begin with a value."""
    return [line.split() for line in text.splitlines() if line.startswith(f"{first} ")]


@pytest.mark.long
def test_two_crawls_are_joined_checked_watched_and_restored(tmp_path: Path) -> None:
    port, site_port = str(free_port()), str(free_port())
    up, pages, site, crawls, checked, changed, bad_day, restored, aside, remembered = read_blocks(
        "docs/tables.md", port, site_port
    )
    server = {"SPINDLE_URL": f"http://127.0.0.1:{port}", "COLUMNS": "120"}

    def run(block: str) -> str:
        done = paste(block, tmp_path, **server)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    with ExitStack() as stack:
        ports = {"SPINDLE_PORT": port, "SPINDLE_UI_PORT": str(free_port())}
        stack.enter_context(terminal(f"env {up}", tmp_path, "Spindle is ready", **ports))
        run(pages)
        stack.enter_context(terminal(site, tmp_path, "Serving HTTP", PYTHONUNBUFFERED="1"))
        joined = run(crawls)
        assert "Table market.rates" in joined
        assert find_cells(joined, "B4")[-1] == ["B4", "Bowl", "120.0", "SEK"], "it has no rate"
        assert find_cells(joined, "R3")[-1] == ["R3", "Rug", "95.0", "USD", "87.4"]
        refused = run(checked)
        assert "the output has 2 rows, and should have at least 3" in refused
        assert "nothing was published" in refused
        assert find_cells(refused, "4") == [["4"]]
        differences = run(changed)
        assert "1 added, 1 removed, 1 changed" in differences
        assert "price: 8.0 → 7.0" in differences
        assert find_cells(run(bad_day), "R3")[-1] == ["R3", "9500.0"]
        back = run(restored)
        assert "Market/prices has the rows of version 2 again: version 4, with 4 rows." in back
        assert find_cells(back, "R3") == [["R3", "95.0"]]
        bad_rows = run(aside)
        assert find_cells(bad_rows, "R3") == [["R3", "currency", "is", "'DKK'"]]
        assert find_cells(bad_rows, "3") == [["3"]]
        states = run(remembered)
        assert [cells[-1] for cells in find_cells(states, "V5")][-2:] == ["false", "true"]
