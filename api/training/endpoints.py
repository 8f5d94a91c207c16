"""AI providers: models are listed, trained further, downloaded and published."""

from __future__ import annotations

from functools import partial
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import StreamingResponse

from api.events.requests import STREAM, LastEventId, make_key_check, parse_event_id
from api.events.stream import EventStream
from api.kit.auth import DatasetWriter, Executor, KeyRoute, Reader
from api.kit.concurrency import DATASET_UPLOADS, DOWNLOADS, OUTBOUND
from api.kit.encryption import KeyRingOf
from api.kit.errors import answers
from api.kit.idempotency import REPLAYED
from api.kit.services import ServicesOf
from api.kit.sessions import ReadSession, WriteSession
from api.kit.streams import BlockingStream, begin
from api.training.events import read_events
from api.training.schemas import (
    CostEstimate,
    ModelRecord,
    TrainingHealth,
    TrainingInfo,
    TrainingLog,
    TrainingStarted,
    TrainingStatus,
    build_cost_estimate,
    build_training_info,
    build_training_status,
)
from core.training.downloads import open_download
from core.training.estimates import estimate_cost
from core.training.models import ModelPublication, TrainingDatasetRequest, TrainingRequest
from core.training.publishing import create_dataset, publish_model
from core.training.service import ProviderRecord

router = APIRouter(prefix="/ai-providers", tags=["AI providers"], route_class=KeyRoute)
cloud = APIRouter(prefix="/training", tags=["training"], route_class=KeyRoute)
PROVIDER = "/providers/{provider}"
JOB = f"{PROVIDER}/training/{{jobId}}"
Provider = Annotated[str, Path(description="openai, together, huggingface or local, in any spelling.")]
TrainingId = Annotated[str, Path(alias="jobId", description="Id of the training.")]
ASKED = answers(404, 409, 429)
MODEL_FILES = {
    200: {
        "description": "The model's file, or a zip of its files.",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


@router.get("/providers", summary="List the AI providers")
def list_ai_providers(
    caller: Reader, session: ReadSession, services: ServicesOf, key_ring: KeyRingOf
) -> list[ProviderRecord]:
    """Return the providers, and whether the organization can train there: with a credential, or a local trainer."""
    return [*services.training.list_providers(session, caller, key_ring)]


@router.get(f"{PROVIDER}/models", summary="List the models of an AI provider", responses=ASKED)
def list_ai_models(provider: Provider, caller: Reader, services: ServicesOf, key_ring: KeyRingOf) -> list[ModelRecord]:
    """Request the provider's list of models. The answer is used for an hour."""
    with OUTBOUND.acquire(caller.organization_id):
        models = services.training.list_models(caller, provider, key_ring)
    return [ModelRecord.model_validate(each) for each in models]


@router.post(f"{PROVIDER}/training", dependencies=[REPLAYED], summary="Train a model further", responses=ASKED)
def start_training(
    provider: Provider, body: TrainingRequest, caller: Executor, services: ServicesOf, key_ring: KeyRingOf
) -> TrainingStarted:
    """Store a training, which begins in the background: its data is converted and sent, and its job is followed.

    The data is what is current now. Local trainings run one at a time, in turns between organizations; others wait as
    PENDING.
    """
    return TrainingStarted(job_id=services.training.start(caller, provider, body, key_ring).id)


@router.get(f"{JOB}/status", summary="State and progress of a training", responses=answers(404))
def read_training_status(
    provider: Provider, training_id: TrainingId, caller: Reader, session: ReadSession, services: ServicesOf
) -> TrainingStatus:
    """Return the stored state of a training. A failed one has the provider's sentence as `error`."""
    return build_training_status(services.training.get(session, caller, provider, training_id))


@router.get(
    f"{JOB}/events",
    summary="Follow a training",
    response_class=Response,
    responses={200: STREAM, 204: {"description": "The training has ended, and has not changed since."}, **answers(404)},
)
def follow_training(
    provider: Provider,
    training_id: TrainingId,
    caller: Reader,
    services: ServicesOf,
    request: Request,
    last_event_id: LastEventId = None,
) -> Response:
    """Send Server-Sent Events: the state of the training now, then its changes until the end.

    `event: progress` while it runs and `event: state` otherwise carry what `status` answers. Of several changes within
    half a second the last one is sent.
    """
    read = partial(read_events, services.training, caller, provider, training_id)
    after = parse_event_id(last_event_id)
    first = read(after)
    if first.ended and not first.events:
        return Response(status_code=204)
    return EventStream(caller, (provider, training_id), read, make_key_check(services, request), after)


@router.get(f"{JOB}/logs", summary="Log of a training", responses=ASKED)
def read_training_log(
    provider: Provider, training_id: TrainingId, caller: Reader, services: ServicesOf, key_ring: KeyRingOf
) -> TrainingLog:
    """Return the lines that the provider has so far; after the end, those that were stored."""
    with OUTBOUND.acquire(caller.organization_id):
        return TrainingLog(logs=list(services.training.list_log(caller, provider, training_id, key_ring)))


@router.get(
    f"{JOB}/download",
    summary="Download a trained model",
    response_class=StreamingResponse,
    responses={**ASKED, **MODEL_FILES},
)
def download_model(
    provider: Provider,
    training_id: TrainingId,
    caller: Reader,
    services: ServicesOf,
    key_ring: KeyRingOf,
    output_path: Annotated[
        str | None,
        Query(alias="outputPath", description="Path below models/ of the storage, where the files are stored too."),
    ] = None,
) -> Response:
    """Send the model's file, or a zip of its files. A provider that keeps its weights is 409 `weights-kept`."""
    with DOWNLOADS.acquire(caller.organization_id):
        download = open_download(services.training, caller, provider, training_id, output_path, key_ring)
        chunks = begin(download.chunks)
    disposition = f"attachment; filename=\"model\"; filename*=UTF-8''{quote(download.name)}"
    headers = {"Content-Disposition": disposition}
    return BlockingStream(chunks, media_type="application/octet-stream", headers=headers)


@router.delete(JOB, summary="Cancel a training", status_code=200, response_class=Response, responses=answers(404))
def cancel_training(
    provider: Provider, training_id: TrainingId, caller: Executor, session: WriteSession, services: ServicesOf
) -> Response:
    """End a training at once; its provider gets the order in the background. One that has ended stays as it is."""
    services.training.cancel(session, caller, provider, training_id)
    return Response()


@router.post(f"{PROVIDER}/cost-estimate", summary="Estimate the cost of a training", responses=ASKED)
def estimate_training_cost(
    provider: Provider, body: TrainingRequest, caller: Reader, services: ServicesOf, key_ring: KeyRingOf
) -> CostEstimate:
    """Read the data and multiply by the price of the table that is shipped with Spindle.

    Without `estimated: true` the provider itself has counted the tokens.
    """
    with DATASET_UPLOADS.acquire(caller.organization_id):
        return build_cost_estimate(estimate_cost(services.training, caller, provider, body, key_ring))


@router.post(
    f"{PROVIDER}/datasets",
    dependencies=[REPLAYED],
    summary="Send training data to an AI provider",
    response_class=Response,
    responses=ASKED,
)
def create_training_dataset(
    provider: Provider,
    body: TrainingDatasetRequest,
    caller: DatasetWriter,
    services: ServicesOf,
    key_ring: KeyRingOf,
) -> Response:
    """Convert a file or dataset to examples, check and split them, and send both parts to the provider.

    A training whose `trainingFile` is the same path uses them.
    """
    with DATASET_UPLOADS.acquire(caller.organization_id):
        create_dataset(services.training, caller, provider, body, key_ring)
    return Response()


@router.post(
    f"{PROVIDER}/models/publish",
    dependencies=[REPLAYED],
    summary="Publish a model on the Hub",
    response_class=Response,
    responses=ASKED,
)
def publish_trained_model(
    provider: Provider, body: ModelPublication, caller: DatasetWriter, services: ServicesOf, key_ring: KeyRingOf
) -> Response:
    """Commit a file or folder of the storage to a private model in the account of the key."""
    with DATASET_UPLOADS.acquire(caller.organization_id):
        publish_model(services.training, caller, provider, body, key_ring)
    return Response()


@cloud.get("/info", summary="Facts about training")
def read_training_info(caller: Reader, session: ReadSession, services: ServicesOf, key_ring: KeyRingOf) -> TrainingInfo:
    """Return the providers, the number of unfinished trainings, and the limits of local ones."""
    return build_training_info(services.training.describe(session, caller, key_ring))


@cloud.get("/health", summary="Whether models can be trained")
def read_training_health(
    caller: Reader, session: ReadSession, services: ServicesOf, key_ring: KeyRingOf
) -> TrainingHealth:
    """Return `UP` when the trainer process answers, and a provider is enabled or there is a local trainer."""
    return TrainingHealth(local_training=services.training.check_health(session, caller, key_ring))
