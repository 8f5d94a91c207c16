"""Python extensions: the functions that agents' pipelines call, kept and checked as text."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Response

from api.kit.auth import KeyRoute, Reader, Writer
from api.kit.errors import answers
from api.kit.idempotency import REPLAYED
from api.kit.pagination import PageOf
from api.kit.preconditions import TAGGED, IfMatch, set_etag
from api.kit.schemas import AgentId
from api.kit.sessions import ReadSession, WriteSession
from api.python_extensions.schemas import (
    ExtensionRecord,
    GeneratedCode,
    Information,
    PipelineText,
    ProcessedText,
    Validation,
    build_extension_record,
    build_processed_text,
)
from core.definitions.python_extensions import service as extensions
from core.definitions.python_extensions.models import ExtensionCreate, ExtensionRegistration, ExtensionUpdate
from core.definitions.python_extensions.scripts import process_pipeline
from core.definitions.python_extensions.validation import TYPES, list_plugin_transforms, validate_function
from core.errors import BadInput
from core.infra.preconditions import Versioned
from core.tables import PythonExtension
from pipelines.transforms.source import MAX_BYTES
from pipelines.transforms.transform import DEFAULT_LIMITS

PREFIX = "/python-extensions"
TAGS = ["python extensions"]
router = APIRouter(tags=[*TAGS], route_class=KeyRoute)
about = APIRouter(tags=[*TAGS], route_class=KeyRoute)
ExtensionId = Annotated[str, Path(alias="extensionId", description="Id of the Python extension.")]


@about.get("/info", summary="What Python extensions can be, and what a row may take")
def read_extension_info(_caller: Reader) -> Information:
    """Return the types of extensions, the row transforms of plugins, and the limits of a function."""
    return Information(
        supported_types=[*TYPES],
        provided=[*list_plugin_transforms()],
        max_function_bytes=MAX_BYTES,
        row_seconds=DEFAULT_LIMITS.seconds,
        row_memory_mib=DEFAULT_LIMITS.memory_mib,
    )


@about.get("/supported-types", summary="List the types of Python extensions")
def list_extension_types(_caller: Reader) -> list[str]:
    """Return the names that `extensionType` may have."""
    return [*TYPES]


@about.post(
    "/process-yaml",
    summary="Read the functions that stand in a pipeline's text",
    description="Executions ignore what stands under `python_extensions`: register it with the agent. Nothing is "
    "stored here, and nothing run. `warnings` name the row transforms that the pipeline calls and its text has not.",
)
def process_pipeline_text(body: PipelineText, _caller: Reader) -> ProcessedText:
    return build_processed_text(process_pipeline(body.pipeline_yaml))


@about.post("/validate", summary="Check a function without storing or running it")
def validate_extension(body: ExtensionUpdate, _caller: Reader) -> Validation:
    """Return the problems of a function's text, with their lines. It is neither stored nor run."""
    try:
        validate_function(body.source, body.name, body.type)
    except BadInput as error:
        return Validation(valid=False, errors=[each.message for each in error.details])
    return Validation(valid=True, errors=[])


@router.post(
    f"{PREFIX}/register",
    dependencies=[REPLAYED],
    summary="Register a function with the agent that the body names",
    response_class=Response,
    responses={**TAGGED, **answers(404, 409)},
)
def register_extension(body: ExtensionRegistration, caller: Writer, session: WriteSession) -> Response:
    """Store a function that the agent's pipeline calls as `python_row_transform:<name>`.

    The answer has no body; the agent's list of extensions has its id.
    """
    return _answer_nothing(extensions.create(session, caller, body.agent_id, body))


@router.get(
    f"{PREFIX}/{{extensionId}}", summary="Read a Python extension", responses={**TAGGED, **answers(404)}
)  # fmt: skip
def read_extension(
    extension_id: ExtensionId, caller: Reader, session: ReadSession, response: Response
) -> ExtensionRecord:
    """Return a Python extension with the text of its function."""
    return build_extension_record(set_etag(response, extensions.get(session, caller, extension_id)))


@router.put(
    f"{PREFIX}/{{extensionId}}",
    summary="Change a Python extension; what the body leaves out stays",
    description="Executions that are on their way keep the text that they were submitted with.",
    response_class=Response,
    responses={**TAGGED, **answers(404, 409, 412)},
)
def update_extension(
    extension_id: ExtensionId,
    body: ExtensionUpdate,
    caller: Writer,
    session: WriteSession,
    if_match: IfMatch,
) -> Response:
    return _answer_nothing(extensions.update(session, caller, extension_id, body, if_match))


@router.delete(
    f"{PREFIX}/{{extensionId}}",
    summary="Delete a Python extension",
    response_class=Response,
    responses=answers(404, 412),
)
def delete_extension(extension_id: ExtensionId, caller: Writer, session: WriteSession, if_match: IfMatch) -> Response:
    """Delete a Python extension. Executions that were submitted before keep its text. The answer has no body."""
    extensions.delete(session, caller, extension_id, if_match)
    return Response()


@router.post(
    f"{PREFIX}/{{extensionId}}/generate-pyspark",
    summary="A script that calls the function for each row of a CSV file",
    description="It takes the file's path from the environment variable INPUT_PATH, and the arguments that the "
    "function needs from variables of their names after `ARG_`. An agent's `pysparkCode` is its whole pipeline.",
    responses=answers(404, 409),
)
def generate_extension_code(extension_id: ExtensionId, caller: Reader, session: ReadSession) -> GeneratedCode:
    return GeneratedCode(code=extensions.generate_script(session, caller, extension_id))


@router.get(
    "/agents/{agentId}/extensions", summary="List the extensions of an agent: Python is all that there is",
    name="list_extensions", responses=answers(404),
)  # fmt: skip
@router.get(
    "/agents/{agentId}/python-extensions", summary="List the Python extensions of an agent", responses=answers(404)
)
def list_python_extensions(
    agent_id: AgentId, caller: Reader, session: ReadSession, page: PageOf
) -> list[ExtensionRecord]:
    """Return the functions that are registered with an agent, oldest first.

    With `limit` the answer is a page, and the `Link` header has the next one.
    """
    found = extensions.list_of_agent(session, caller, agent_id, limit=page.limit, after=page.after)
    page.link([each.id for each in found])
    return [build_extension_record(each) for each in found]


@router.post(
    "/agents/{agentId}/python-extensions",
    dependencies=[REPLAYED],
    summary="Register a function with an agent",
    responses={**TAGGED, **answers(404, 409)},
)
def create_python_extension(
    agent_id: AgentId, body: ExtensionCreate, caller: Writer, session: WriteSession, response: Response
) -> ExtensionRecord:
    """Store a function that the agent's pipeline calls as `python_row_transform:<name>`, and return it with its id."""
    return build_extension_record(set_etag(response, extensions.create(session, caller, agent_id, body)))


def _answer_nothing(extension: Versioned[PythonExtension]) -> Response:
    """Return an answer without a body, as specified, with the extension's ETag."""
    response = Response()
    set_etag(response, extension)
    return response
