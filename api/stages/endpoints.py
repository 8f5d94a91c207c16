"""The stages that pipelines can have."""

from __future__ import annotations

from fastapi import APIRouter

from api.kit.auth import KeyRoute, Reader
from api.kit.sessions import ReadSession
from api.stages.schemas import StageCatalog, build_stage_record
from core.definitions.plugins.service import list_uploaded_stages
from pipelines.listing import list_all_stages

router = APIRouter(prefix="/catalog", tags=["catalog"], route_class=KeyRoute)


@router.get("/stages", summary="List the stages that pipelines can be made of, those of plugins included")
def list_stages(caller: Reader, session: ReadSession) -> StageCatalog:
    """Return the stages that a pipeline may have, with the JSON schema of their arguments and an example of each.

    Those of plugins that the organization has uploaded are last.
    """
    stages = [*list_all_stages(), *list_uploaded_stages(session, caller)]
    return StageCatalog(data=[build_stage_record(stage) for stage in stages])
