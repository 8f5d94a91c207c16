"""Generic tables: JSON documents of an organization, listed page by page with filters and sort."""

from __future__ import annotations

from core.records.query import Listing, Query
from core.records.repository import Records, shown

__all__ = ["Listing", "Query", "Records", "shown"]
