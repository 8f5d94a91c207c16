"""The stages that pipelines can have."""

from __future__ import annotations

from fastapi import APIRouter

from api.kit.auth import KeyRoute, Reader
from api.stages.schemas import StageCatalog, build_stage_record
from pipelines.listing import list_all_stages

router = APIRouter(prefix="/catalog", tags=["catalog"], route_class=KeyRoute)


@router.get("/stages", summary="List the stages that pipelines can be made of, those of plugins included")
def list_stages(_caller: Reader) -> StageCatalog:
    """Return the stages that a pipeline may have, with the JSON schema of their arguments and an example of each."""
    return StageCatalog(data=[build_stage_record(stage) for stage in list_all_stages()])
