from __future__ import annotations

from tests.pipelines.fetch.bad_server import bad_server

__all__ = ["bad_server"]
