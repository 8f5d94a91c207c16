"""The manifest of a plugin: what it adds, as plain values, made in a process that does not trust its code.

The service lists, checks and plans with the manifest, and never imports the plugin.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import EntryPoint
from pathlib import Path
from traceback import extract_tb
from typing import Any

from pipelines.browser.actions import ACTIONS, Action
from pipelines.errors import RunError
from pipelines.extract.extractors import METHODS, Method
from pipelines.language.columns import Columns
from pipelines.listing import list_all_stages
from pipelines.planning.stage import STAGES
from pipelines.plugin import GROUP
from pipelines.registry import CREDENTIALS, Entry, Registry, import_engine
from pipelines.transforms import ROW_TRANSFORMS, RowFunction
from pipelines.transforms.sandbox import FunctionCall, Limits, RowFailed, Sandbox

_SECONDS, _MEMORY_MIB = 60.0, 3072  # the engine itself takes most of both
_ROOT = Path(__file__).resolve().parents[1]
_PACKAGES = ("pipelines", "spindle")
_TEXT = """
import sys

def describe(row):
    sys.path[:0] = row["folders"]
    from pipelines.manifest import describe_plugin
    return describe_plugin(row["name"], row["entry"], row["own"])
"""


def make_manifest(name: str, entry: str, folders: Sequence[Path]) -> Mapping[str, Any]:
    """Return the manifest of the plugin in these folders, which an isolated process imports.

    Raises RunError where it does not load; nothing in the result can be trusted but its being JSON.
    """
    packages = [str(_ROOT / each) for each in _PACKAGES]
    libraries = [each for each in sys.path if each.endswith("site-packages")]
    limits = Limits(_SECONDS, _MEMORY_MIB, only_isolated=True)
    own = [str(each) for each in folders]
    paths = [str(_ROOT), *libraries, *own]
    call = FunctionCall(f"the plugin {name}", _TEXT, "describe", {}, limits, (*packages, *libraries, *own))
    box = Sandbox(call)
    try:
        (made,) = box.run([{"folders": paths, "own": own, "name": name, "entry": entry}])
    finally:
        box.close()
    if isinstance(made, RowFailed):
        raise RunError(str(made))
    if made and (failure := made.get("failure")):
        raise RunError(str(failure))
    return made or {}


def describe_plugin(name: str, entry: str, folders: Sequence[str]) -> dict[str, Any]:
    """Import a plugin of these folders and return its manifest; called in the isolated process.

    Where it does not load, there is only a `failure`, with the line of the plugin that raised.
    """
    import_engine()
    try:
        installed = Registry.register_plugin(EntryPoint(name, entry, GROUP))
    except Exception as error:  # a plugin may raise anything
        return {"failure": _describe_failure(error, folders)}
    plugin = installed.plugin
    own = [each for each in list_all_stages() if each.plugin == name]
    return {
        "description": plugin.description,
        "stages": [{**asdict(each), "columns": list_columns(each.name)} for each in own if ":" not in each.name],
        "actions": [_describe_action(each) for each in ACTIONS if each.plugin == name],
        "methods": [_describe_method(each) for each in METHODS if each.plugin == name],
        "transforms": [
            {"name": each.name, "source": read_source(each.thing)} for each in ROW_TRANSFORMS if each.plugin == name
        ],
        "credentials": _list_names(CREDENTIALS, name),
        "pipelines": dict(plugin.read_pipelines()),
        "unserved": [part for part in ("router", "settings", "migrations") if getattr(plugin, part)],
    }


def _describe_failure(error: Exception, folders: Sequence[str]) -> str:
    raised = error.__cause__ if isinstance(error.__cause__, Exception) else error
    frames = [(frame.filename, frame.lineno) for frame in extract_tb(raised.__traceback__)]
    if isinstance(raised, SyntaxError):
        frames.append((raised.filename or "", raised.lineno))
    sentence = f"{type(raised).__name__}: {raised.msg if isinstance(raised, SyntaxError) else raised}"
    for path, line in reversed(frames):
        for folder in folders:
            if path.startswith(f"{folder}/"):
                return f"{sentence} ({path.removeprefix(folder)[1:]}, line {line})"
    return sentence


def list_columns(stage: str) -> Sequence[tuple[str, str]]:
    """Return the columns that a stage adds, with their types; texts that it requires have the names of their arguments.

    There are none where it cannot be made so, or where its columns follow from those before it.
    """
    found = STAGES.find(stage).thing
    required = {name: name for name, field in found.model_fields.items() if field.is_required()}
    try:
        return found.model_validate(required).infer_columns(Columns(open=True)).types
    except Exception:  # a plugin may raise anything
        return ()


def _describe_method(entry: Entry[Method]) -> dict[str, Any]:
    method = entry.thing
    reads_columns = method.of_value is not None
    return {
        "name": entry.name,
        "aliases": entry.aliases,
        "type": method.type,
        "takes": method.takes,
        "reads_columns": reads_columns,
    }


def _describe_action(entry: Entry[type[Action]]) -> dict[str, Any]:
    fields = entry.thing.model_fields
    required = [field.alias or name for name, field in fields.items() if field.is_required()]
    parameters = entry.thing.list_argument_names()
    return {"name": entry.name, "aliases": entry.aliases, "parameters": parameters, "required": required}


def read_source(function: RowFunction) -> str:
    """Return the module of a row transform as a user's function is written: without what depends on Spindle.

    Raise ValueError for a function that itself does.
    """
    module = ast.parse(inspect.getsource(inspect.getmodule(function) or function))
    for each in module.body:
        if isinstance(each, ast.FunctionDef):
            each.decorator_list = [name for name in each.decorator_list if not _is_registration(name)]
    lost: dict[str, str] = {}  # names that the module does not have without Spindle, with those that they depend on
    kept: list[ast.stmt] = []
    for each in module.body:
        if _imports_spindle(each):
            lost |= {name: name for name in _list_bound(each)}
        elif missing := sorted(_list_used(each) & lost.keys()):
            lost |= {name: lost[missing[0]] for name in _list_bound(each)}
        else:
            kept.append(each)
    if cause := lost.get(function.__name__):
        raise ValueError(
            f"the row transform '{function.__name__}' uses '{cause}' of Spindle, which row transforms do not have: "
            "they run in a process of their own"
        )
    return ast.unparse(ast.Module(kept, []))


def check_transforms(sources: Mapping[str, str]) -> None:
    """Load the row transforms as a run does; raise RunError for one that does not load so."""
    for name, source in sources.items():
        box = Sandbox(FunctionCall(f"the row transform '{name}'", source, name, {}, Limits(only_isolated=True)))
        try:
            list(box.run([{}]))  # that this row fails says nothing
        finally:
            box.close()


def _imports_spindle(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.ImportFrom):
        return (statement.module or "").partition(".")[0] == "spindle"
    return isinstance(statement, ast.Import) and any(
        each.name.partition(".")[0] == "spindle" for each in statement.names
    )


def _list_bound(statement: ast.stmt) -> set[str]:
    """Return the names that a statement of a module gives a value."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {statement.name}
    names = {each.id for each in ast.walk(statement) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    aliases = (each for each in ast.walk(statement) if isinstance(each, ast.alias))
    return names | {each.asname or each.name.partition(".")[0] for each in aliases}


def _list_used(statement: ast.stmt) -> set[str]:
    """Return the names of the module that a statement uses, without those that a function has itself."""
    nodes = [*ast.walk(statement)]
    used = {each.id for each in nodes if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)}
    if isinstance(statement, ast.FunctionDef):
        own = {each.arg for each in nodes if isinstance(each, ast.arg)}
        used -= own | {each.id for each in nodes if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    return used


def _is_registration(node: ast.expr) -> bool:
    return ast.unparse(node).rpartition(".")[2] == "register_row_transform"


def _list_names(entries: Registry[Any], plugin: str) -> Sequence[str]:
    found: list[Entry[Any]] = [each for each in entries if each.plugin == plugin]
    return [spelling for each in found for spelling in each.spellings]
