"""Python that users give their agents."""

from __future__ import annotations

from sqlalchemy import ForeignKey, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from core.tables.base import Owned


class PythonExtension(Owned):
    """A function's text under the name that the agent's pipeline calls it by; stored, never run by the service."""

    __tablename__ = "python_extensions"
    __table_args__ = (UniqueConstraint("agent_id", "folded_name"),)
    agent_id: Mapped[str] = mapped_column(ForeignKey("agents.id", ondelete="CASCADE"), index=True)
    name: Mapped[str]
    folded_name: Mapped[str]
    type: Mapped[str]
    source: Mapped[str] = mapped_column(Text)
