"""The stage reference, from the registry: `python -m pipelines.docs > docs/stages.md`."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic.fields import FieldInfo

from pipelines.actions import ACTIONS, Action
from pipelines.arguments import Arguments
from pipelines.catalog import Named
from pipelines.extractors import METHODS, Extractor
from pipelines.model import Options
from pipelines.registry import STAGES, Stage

_INTRODUCTION = """# Stages

A pipeline is a list of stages, each with `stage` and `args`. Arguments stand in a list, in the order of the tables
below, or in a map by name. Names of stages, arguments and methods ignore case and underscores. `$column` is a column's
value, `${NAME}` a parameter. In the examples `${SHOP}` is the address of a small shop, `${FOLDER}` a folder of files.
"""

_TRACES = """\
What is done in the browser before a page is read: a list of entries with `action` (or `factory`) and `params`, in the
`fetch` block or as the argument `traces` of a visit stage. The page's own address is opened first, unless the trace
begins with a visit. Selectors are CSS as browsers have it, and Playwright's (`:has-text("more")`, `text=more`).
An action that fails fails the page: the row says which one in `_error`.
"""


def reference() -> str:
    """The whole page as Markdown."""
    parts = [_INTRODUCTION, *(_stage(entry) for entry in STAGES), _extractors(), _traces(), _options()]
    return "\n".join(parts)


def _stage(entry: Named[type[Stage]]) -> str:
    lines = [f"## {entry.name}", ""]
    if entry.aliases:
        lines += [f"Also called {', '.join(f'`{alias}`' for alias in entry.aliases)}.", ""]
    lines += [entry.doc, "", *_table(entry.thing), "```yaml", entry.thing.example.strip(), "```", ""]
    return "\n".join(lines)


def _extractors() -> str:
    methods = ", ".join(f"`{each.name}`" for each in METHODS)
    return "\n".join(["## Extractors", "", f"Methods: {methods}.", "", *_table(Extractor)])


def _traces() -> str:
    actions = (line for each in ACTIONS for line in _action(each))
    return "\n".join(["## Traces", "", _TRACES, *actions])


def _action(entry: Named[type[Action]]) -> Iterator[str]:
    yield from (f"### {entry.name}", "")
    if entry.aliases:
        yield from (f"Also called {', '.join(f'`{alias}`' for alias in entry.aliases)}.", "")
    yield from (entry.doc, "", *_table(entry.thing), "```yaml", f"traces: {entry.thing.example}", "```", "")


def _options() -> str:
    return "\n".join(["## The key spindle", "", "What a pipeline sets about its own run.", "", *_table(Options)])


def _table(model: type[Arguments]) -> Iterator[str]:
    if not model.model_fields:
        yield from ("It takes no arguments.", "")
        return
    yield from ("| argument | default |", "|---|---|")
    for name, field in model.model_fields.items():
        yield f"| `{field.alias or name}` | {_default(field)} |"
    yield ""


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    return "" if field.default in (None, (), "") else f"`{field.default}`"


if __name__ == "__main__":
    print(reference(), end="")
