"""The text of `script_run.py` for an isolated process: the standard library alone, and `spindle` in its place."""

from __future__ import annotations

import json
import sys
import traceback
from types import ModuleType
from typing import Any, NoReturn

FILE = "<agent>"
BLOCKS = ("fetch", "stages", "output", "spindle", "checks")


class Pipeline:
    """What `Pipeline.of` was given."""

    def __init__(self, blocks: dict[str, Any]) -> None:
        self.blocks = blocks

    @classmethod
    def of(cls, **blocks: Any) -> Pipeline:
        unknown = next((each for each in blocks if each not in BLOCKS), None)
        if unknown is not None:
            raise TypeError(f"Pipeline.of takes {', '.join(BLOCKS)} by name, not {unknown}")
        return cls({key: blocks[key] for key in BLOCKS if key in blocks})


class Spark:
    """Stands where a script has its session: the agent describes what runs later."""

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"spark.{name} is not there: an agent describes its pipeline with Pipeline.of")


def stage(name: str, /, *arguments: Any, **named: Any) -> dict[str, Any]:
    """Return a stage for `Pipeline.of`, as `spindle.stage` does."""
    return {"stage": name, "args": [*arguments, *([named] if named else [])] if arguments else named}


def describe_pipeline(row: dict[str, Any]) -> dict[str, Any]:
    """Run the code with its arguments; return the pipeline as JSON, or the error with its line."""
    install_modules()
    sys.argv = ["agent", *row["arguments"]]
    names: dict[str, Any] = {"__name__": "agent", "Pipeline": Pipeline, "stage": stage, "spark": Spark()}
    try:
        exec(compile(row["code"], FILE, "exec", dont_inherit=True), names)  # noqa: S102 - what this process is for
        pipeline = names.get("pipeline")
        if not isinstance(pipeline, Pipeline):
            return {"error": "it assigns no Pipeline.of(...) to the name pipeline", "line": None}
        return {"pipeline": json.dumps(pipeline.blocks)}
    except BaseException as error:  # SystemExit too: the code is untrusted
        return {"error": f"{type(error).__name__}: {error}", "line": find_line(error)}


def install_modules() -> None:
    """Make `from spindle import Pipeline, stage` and `from spindle.spark import start_session` work."""
    package, spark = ModuleType("spindle"), ModuleType("spindle.spark")
    package.__dict__.update(Pipeline=Pipeline, stage=stage, spark=spark)
    spark.__dict__.update(start_session=Spark)
    sys.modules.update({"spindle": package, "spindle.spark": spark})


def find_line(error: BaseException) -> int | None:
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == FILE]
    return error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
