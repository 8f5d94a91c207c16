"""Reading the audit log."""

from __future__ import annotations

from fastapi import APIRouter

from api.audit.schemas import AuditRecord
from api.kit.auth import Admin, KeyRoute
from api.kit.pagination import MAX_PAGE, PageOf
from api.kit.sessions import ReadSession
from core.definitions.identity.audit import list_entries

router = APIRouter(prefix="/audit", tags=["auth"], route_class=KeyRoute)


@router.get("", summary="List who did what")
def list_audit_entries(caller: Admin, session: ReadSession, page: PageOf) -> list[AuditRecord]:
    """Return the operations that changed something or tried to, newest first: caller, operation and records.

    Bodies and secrets are never among them. Without a limit, the newest 1,000 are returned. Entries are kept for
    `SPINDLE_RETENTION_AUDIT_DAYS`.
    """
    entries = list_entries(session, caller, limit=page.limit or MAX_PAGE, before=page.after)
    return [AuditRecord.model_validate(each) for each in page.link_rows(entries)]
