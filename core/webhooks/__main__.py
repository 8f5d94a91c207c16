"""`python -m core.webhooks`: sends what happens to those who want to be told, until it is stopped."""

from __future__ import annotations

import signal
import threading
from types import FrameType

from core import logs
from core.database import open_database
from core.settings import Settings
from core.webhooks.deliver import Deliverer


def main() -> None:
    logs.configure("webhooks")
    settings = Settings()
    stop = threading.Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    database = open_database(settings)
    Deliverer(settings, database).run(stop)
    database.close()


if __name__ == "__main__":
    main()
