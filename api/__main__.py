"""Serves the API: `python -m api`, told by the SPINDLE_ settings."""

from __future__ import annotations

import uvicorn

from api.app import create_app
from core.logs import configure
from core.settings import Settings

STOP_SECONDS = 10


def main() -> None:
    settings = Settings()
    configure("api")
    uvicorn.run(
        create_app(settings),
        host=settings.host,
        port=settings.port,
        access_log=False,
        log_level="warning",
        server_header=False,
        timeout_graceful_shutdown=STOP_SECONDS,
    )


if __name__ == "__main__":
    main()
