"""The front of the engine: a pipeline's text, checked, planned and run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pipelines import document, reader
from pipelines.document import Node
from pipelines.errors import Problem
from pipelines.parameters import Value, names, substitute
from pipelines.plan import Plan
from pipelines.planner import plan as plan_model

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pipelines.spark.context import RunContext


class Pipeline:
    """A pipeline whose text has been read; raises PipelineError with located problems wherever it is wrong."""

    def __init__(self, root: Node) -> None:
        self._root = root

    @classmethod
    def from_yaml(cls, text: str) -> Pipeline:
        """Parses the text and checks its shape; parameters may still be open."""
        pipeline = cls(document.parse(text))
        reader.read(pipeline._root)
        return pipeline

    @property
    def parameters(self) -> frozenset[str]:
        """Names of the `${NAME}`s in the text."""
        return names(self._root)

    def plan(self, parameters: Mapping[str, Value] | None = None) -> Plan:
        """The plan with these parameters; lists every `${NAME}` that has no value."""
        return plan_model(reader.read(substitute(self._root, parameters or {})))

    def plan_open(self) -> Plan:
        """The plan as far as it is known while parameters have no values."""
        return plan_model(reader.read(self._root))

    def check(self) -> tuple[Problem, ...]:
        """Plans with the parameters left open and returns warnings; raises PipelineError as `plan` does."""
        return self.plan_open().warnings

    def run(
        self,
        spark: SparkSession,
        parameters: Mapping[str, Value] | None = None,
        context: RunContext | None = None,
    ) -> DataFrame:
        """Runs the pipeline and returns its output rows, in no order; raises PipelineError and RunError.

        Pages are fetched before this returns, so no later action on the rows fetches again. Without a context, only
        public addresses are fetched and all local files may be read.
        """
        from pipelines.spark.engine import run  # Spark is loaded by those who run, not by those who check

        return run(self.plan(parameters), spark, context)


def check_yaml(text: str) -> Pipeline:
    """A pipeline that parses and plans, its parameters left open; raises PipelineError."""
    pipeline = Pipeline.from_yaml(text)
    pipeline.check()
    return pipeline
