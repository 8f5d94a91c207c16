"""The bytes that the versions of an organization's datasets take, and their limit.

Files of several versions count once: a dataset takes the bytes of its oldest version and the additions of later ones.
"""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import case, func, or_, select, update
from sqlalchemy.orm import Session

from core.errors import Conflict
from core.tables import Dataset, DatasetVersion


def sum_stored(session: Session, organization_id: str) -> int:
    query = select(func.sum(Dataset.stored_bytes)).where(Dataset.organization_id == organization_id)
    return int(session.scalar(query) or 0)


def check_storage(session: Session, organization_id: str, limit: int | None, added: int = 0) -> None:
    """Raise Conflict where the datasets take as many bytes as they may, or would with the added ones."""
    if limit is None:
        return
    stored = sum_stored(session, organization_id)
    if stored + max(added, 1) > limit:
        more = f", and this file has {added:,}" if added and stored < limit else ""
        sentence = (
            f"The datasets of the organization take {stored:,} bytes{more}; the limit is {limit:,}. Delete datasets, "
            "or let them keep fewer versions."
        )
        raise Conflict(sentence, code="storage-limit")


def measure_again(session: Session, dataset_ids: Collection[str]) -> None:
    """Store the bytes that datasets take after the removal of versions; the caller has locked the organization."""
    version = DatasetVersion
    oldest = select(func.min(version.number)).where(version.dataset_id == Dataset.id).correlate(Dataset)
    oldest_number = oldest.scalar_subquery()
    # a version that was restored from a removed one has kept its files
    is_whole = or_(version.number == oldest_number, version.restored_from < oldest_number)
    size = case((is_whole, func.coalesce(version.size_bytes, 0)), else_=version.added_bytes)
    stored = select(func.coalesce(func.sum(size), 0)).where(version.dataset_id == Dataset.id).correlate(Dataset)
    statement = update(Dataset).where(Dataset.id.in_(dataset_ids)).values(stored_bytes=stored.scalar_subquery())
    session.execute(statement, execution_options={"synchronize_session": False})
