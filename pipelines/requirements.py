"""The Java libraries that a plan needs: none where it begins without Spark, which a large run fetches them for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipelines.errors import Problem
from pipelines.language.formats import list_format_libraries
from pipelines.local.engine_choice import choose_engine
from pipelines.planning.plan import Plan
from pipelines.spark.jars import LibrariesMissing, has_jars, require_jars

CODE = "missing-libraries"


def find_missing_libraries(plan: Plan) -> Iterator[Problem]:
    """Find libraries that cannot be had; those that can be had are fetched."""
    for library in _list_needed(plan):
        try:
            require_jars([library])
        except LibrariesMissing as error:
            yield _locate(plan, library, str(error))


def find_unfetched_libraries(plan: Plan) -> Iterator[Problem]:
    """Find libraries that are not on this machine, without fetching them."""
    for library in _list_needed(plan):
        if not has_jars(library):
            message = (
                f"the Java libraries for {library} are not on this machine: they are fetched when the pipeline is "
                f"executed, for which it must reach a Maven repository (SPINDLE_MAVEN); 'spindle jars {library}' "
                "fetches them now"
            )
            yield _locate(plan, library, message)


def _list_needed(plan: Plan) -> Sequence[str]:
    return sorted(plan.libraries) if choose_engine(plan).runs_on_spark else ()


def _locate(plan: Plan, library: str, message: str) -> Problem:
    """Return the problem at the first step that needs the library, or at the output."""
    for step in plan.steps:
        if step.stage and library in step.stage.list_libraries():
            return Problem("", message, step.line, None, CODE)
    needed_by_output = library in list_format_libraries(plan.output.format)
    return Problem("output" if needed_by_output else "", message, code=CODE)
