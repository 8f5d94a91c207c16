"""`python -m core.webhooks`: sends what happens to those who want to be told, until it is stopped."""

from __future__ import annotations

from core.infra import logs
from core.infra.background import told_to_stop
from core.infra.database import open_database
from core.infra.settings import Settings
from core.webhooks.deliver import Deliverer


def main() -> None:
    logs.configure("webhooks")
    settings = Settings()
    stop = told_to_stop()
    database = open_database(settings)
    Deliverer(settings, database).run(stop)
    database.close()


if __name__ == "__main__":
    main()
