from __future__ import annotations

from tests.support.bad_server import bad_server

__all__ = ["bad_server"]
