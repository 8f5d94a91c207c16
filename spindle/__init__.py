"""Public API of Spindle: everything that scripts, notebooks and plugins may import.

Other packages are internal and may change with any version. `docs/plugins.md` has examples of all kinds of plugins.
"""

from __future__ import annotations

from pipelines.browser.actions import Action, Visit, register_action
from pipelines.contract.context import RunContext
from pipelines.contract.workers import BatchWorker
from pipelines.coordination.services import ServiceClient, ServiceFailed
from pipelines.errors import AnswerPending, ArgumentError, PipelineError, Problem, RunError
from pipelines.extract.document import Element
from pipelines.extract.extractors import Method, register_method
from pipelines.extract.rows import Link, Row
from pipelines.fetch import Page
from pipelines.fetch.files import FileNotKept
from pipelines.language.columns import Columns
from pipelines.language.origins import Origin
from pipelines.pipeline import Pipeline
from pipelines.planning.script import stage
from pipelines.planning.stage import (
    Capabilities,
    LinkStage,
    RowStage,
    ServiceStage,
    Sink,
    Source,
    Stage,
    TableStage,
    register_stage,
)
from pipelines.plugin import Plugin
from pipelines.transforms import register_row_transform
from spindle.datasets import DatasetError, download, read

__all__ = [
    "Action",
    "AnswerPending",
    "ArgumentError",
    "BatchWorker",
    "Capabilities",
    "Columns",
    "DatasetError",
    "Element",
    "FileNotKept",
    "Link",
    "LinkStage",
    "Method",
    "Origin",
    "Page",
    "Pipeline",
    "PipelineError",
    "Plugin",
    "Problem",
    "Row",
    "RowStage",
    "RunContext",
    "RunError",
    "ServiceClient",
    "ServiceFailed",
    "ServiceStage",
    "Sink",
    "Source",
    "Stage",
    "TableStage",
    "Visit",
    "download",
    "read",
    "register_action",
    "register_method",
    "register_row_transform",
    "register_stage",
    "stage",
]
