"""Generated scripts as Jupyter notebooks, also after changes by hand: a cell for every part of a script."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from itertools import groupby
from typing import Any, cast

from pipelines.language.nodes import MAX_BYTES

MEDIA_TYPE = "application/x-ipynb+json"
_METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
_COMMANDS = ("%", "!")  # of Jupyter, which are no Python


def make_notebook(script: str) -> str:
    """Return the text of an .ipynb file with the parts of a script, for which Spindle must be installed."""
    head, *parts = _split(script)
    introduction = ast.literal_eval(head).replace("python pipeline.py", "run all cells")
    cells = [
        {"cell_type": "markdown", "id": "cell-0", "metadata": {}, "source": introduction.splitlines(keepends=True)},
        *(
            {
                "cell_type": "code",
                "execution_count": None,
                "id": f"cell-{number}",
                "metadata": {},
                "outputs": [],
                "source": part.splitlines(keepends=True),
            }
            for number, part in enumerate(parts, 1)
        ),
    ]
    notebook = {"cells": cells, "metadata": _METADATA, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(notebook, ensure_ascii=False, indent=1) + "\n"


def read_notebook(text: str) -> str | None:
    """Return the code of a notebook's cells as one script; None for a text that is no notebook."""
    if not text.lstrip().startswith("{") or '"nbformat"' not in text or len(text.encode(errors="replace")) > MAX_BYTES:
        return None
    try:
        notebook: Any = json.loads(text)
        cells = [each["source"] for each in notebook["cells"] if each["cell_type"] == "code"]
        return "\n\n".join(_join_lines(source) for source in cells)
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _join_lines(source: str | list[str]) -> str:
    """Return the lines of a cell, without Jupyter's commands."""
    text = source if isinstance(source, str) else "".join(source)
    return "\n".join(line for line in text.splitlines() if not line.startswith(_COMMANDS))


def _split(script: str) -> Iterator[str]:
    """Yield the statements of a script; imports are one part."""
    lines = script.splitlines()
    for _, group in groupby(enumerate(ast.parse(script).body), _get_part):
        statements = [each for _, each in group]
        yield "\n".join(lines[statements[0].lineno - 1 : cast(int, statements[-1].end_lineno)])


def _get_part(numbered: tuple[int, ast.stmt]) -> int:
    number, statement = numbered
    return -1 if isinstance(statement, ast.Import | ast.ImportFrom) else number
