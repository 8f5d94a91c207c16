"""The server's side of trials: one process for every trial, within limits of time and memory."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from core.data.processes import start_process
from core.definitions.agents import service as agents
from core.definitions.agents.validation import PipelineVerdict
from core.definitions.identity.api_keys import Identity
from core.errors import BadInput, Detail, Unavailable
from core.infra.database import Database
from core.infra.settings import Settings
from core.integrations.trials.messages import ProposalAnswer, ProposalRequest, TrialRequest, TriedPipeline
from pipelines.fetch import canonical_url
from pipelines.fetch.fetcher import build_user_agent

WORKER = "core.integrations.trials.worker"
MAX_SECONDS = 40
MAX_ANSWER = 8 * 2**20
FAILED = "The trial took too long, or too much memory. Try a smaller page, or a simpler pipeline."
Answer = TypeVar("Answer", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class TrialOptions:
    """The object of a trial: a pipeline with its parameters, or only a page."""

    pipeline: str | None
    url: str | None
    parameters: Mapping[str, str]
    agent_id: str | None
    max_rows: int
    max_pages: int


def try_pipeline(database: Database, settings: Settings, caller: Identity, options: TrialOptions) -> TriedPipeline:
    """Fetch the first pages of a pipeline and return its first rows, and one page; raise BadInput for its problems."""
    if options.pipeline is None and options.url is None:
        raise BadInput("Send a pipelineYaml, a url, or both.", path="url")
    if options.url is not None and canonical_url(options.url) is None:
        raise BadInput("This is not the URL of a web page.", path="url")
    if options.pipeline is not None:
        with database.read() as session:
            _refuse_problems(agents.check(session, caller, options.pipeline, options.agent_id))
    request = TrialRequest(
        pipeline=options.pipeline,
        url=options.url,
        parameters=dict(options.parameters),
        max_rows=options.max_rows,
        max_pages=options.max_pages,
        allow_networks=tuple(settings.fetch.allow_networks),
        own_endpoints=settings.own_endpoints,
        user_agent=build_user_agent(settings.fetch.contact),
    )
    return ask_process(settings.data, request, TriedPipeline)


def propose_selectors(settings: Settings, request: ProposalRequest) -> ProposalAnswer:
    """Return selectors for an element of a page that was shown; raise BadInput for an element that is not there."""
    answer = ask_process(settings.data, request, ProposalAnswer)
    if answer.problem is not None:
        raise BadInput(answer.problem, path="element")
    return answer


def _refuse_problems(verdict: PipelineVerdict) -> None:
    if verdict.problems:
        details = [Detail(each.path, each.message, each.code) for each in verdict.problems]
        raise BadInput(f"The pipeline has a problem: {verdict.problems[0]}", details)


def ask_process(data: Path, request: BaseModel, kind: type[Answer]) -> Answer:
    """Return the answer of a process to a request; raise BadInput when it exceeds its limits of time or memory."""
    folder = data.resolve() / "trials"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as scratch:
        process = start_process(WORKER, scratch)
        asked = f"{type(request).__name__}\n{request.model_dump_json()}".encode()
        try:
            output, _ = process.communicate(asked, timeout=MAX_SECONDS)
        except subprocess.TimeoutExpired as error:
            process.kill()
            process.communicate()
            raise BadInput(FAILED, code="trial-failed", path="pipelineYaml") from error
    if process.returncode > 0:
        raise Unavailable("The trial has failed.", code="trial-failed")
    if process.returncode or len(output) > MAX_ANSWER:
        raise BadInput(FAILED, code="trial-failed", path="pipelineYaml")
    return kind.model_validate_json(output)
