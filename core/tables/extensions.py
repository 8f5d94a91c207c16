"""Python functions of agents."""

from __future__ import annotations

from sqlalchemy import ForeignKey, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from core.tables.base import Owned

ROW_TRANSFORM = "row_transform"  # a type


class PythonExtension(Owned):
    """A function's source and the name that pipelines call it by. The service itself never runs it."""

    __tablename__ = "python_extensions"
    __table_args__ = (UniqueConstraint("agent_id", "folded_name"),)
    agent_id: Mapped[str] = mapped_column(ForeignKey("agents.id", ondelete="CASCADE"), index=True)
    name: Mapped[str]
    folded_name: Mapped[str]
    type: Mapped[str]
    source: Mapped[str] = mapped_column(Text)
