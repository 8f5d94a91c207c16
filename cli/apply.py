"""`spindle apply`: create, change and delete records of a server so that it matches a file."""

from __future__ import annotations

import difflib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from cli.client import NEGATIVE_RESULT, Connection, connect
from cli.declaration import embed_files, read_declaration
from cli.terminal import escape_text

MARKS = {"create": "+", "change": "~", "delete": "-"}
STYLES = {"+": "green", "~": "yellow", "-": "red"}
MAX_VALUE_LENGTH = 100

Json = Mapping[str, Any]


def apply(connection: Connection, file: Path, dry_run: bool, prune: bool) -> int:
    """Return 0, or NEGATIVE_RESULT when a dry run finds changes; raise ClientError when nothing was changed."""
    body, console = embed_files(read_declaration(file), file.parent), Console(highlight=False, soft_wrap=True)
    with connect(connection) as client:
        applied = client.post("/apply", body, dryRun=dry_run, prune=prune)
    for change in applied["changes"]:
        for style, line in _format_change(change):
            console.print(escape_text(line, STYLES.get(style, "")))
    for warning in applied["warnings"]:
        console.print(escape_text(f"warning: {warning}", "yellow"))
    counts = Counter(change["action"] for change in applied["changes"])
    tense = "to be " if dry_run else ""
    done = (f"{tense}{past} {counts[action]}" for action, past in _PAST.items())
    console.print(", ".join(done).capitalize())
    return NEGATIVE_RESULT if dry_run and applied["changes"] else 0


_PAST = {"create": "created", "change": "changed", "delete": "deleted"}


def _format_change(change: Json) -> Iterator[tuple[str, str]]:
    """Yield a line for the record and lines for its changed fields, each with the mark of its style."""
    mark = MARKS[change["action"]]
    yield mark, f"{mark} {change['kind']} {change['name']}"
    for field in change["fields"]:
        name, before, after = field["name"], field["before"], field["after"]
        if isinstance(before, str) and isinstance(after, str) and "\n" in before + after:
            yield " ", f"    {name}:"
            for line in list(difflib.unified_diff(before.splitlines(), after.splitlines(), n=1, lineterm=""))[2:]:
                yield line[0], f"      {line}"
        else:
            yield " ", f"    {name}: {_format_value(before)} → {_format_value(after)}"


def _format_value(value: Any) -> str:
    text = "nothing" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_VALUE_LENGTH else f"{text[:MAX_VALUE_LENGTH]}…"
