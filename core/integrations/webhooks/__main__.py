"""`python -m core.integrations.webhooks`: send events, calls of cron jobs and notifications until a signal comes."""

from __future__ import annotations

import threading

from core.infra import logs
from core.infra.background import create_shutdown_event
from core.infra.database import open_database
from core.infra.dispatcher import Dispatcher
from core.infra.heartbeats import Heartbeats
from core.infra.settings import Settings
from core.integrations.notifications.deliver import NotificationQueue
from core.integrations.notifications.health import HealthWatch
from core.integrations.webhooks.deliver import WebhookQueue
from core.lifecycle.firing.cron_job_calls import CallQueue


def main() -> None:
    logs.configure("webhooks")
    settings = Settings()
    shutdown = create_shutdown_event()
    database = open_database(settings)
    Heartbeats(settings.data).start_pulse("webhooks")
    watch = HealthWatch(settings, database)
    threading.Thread(target=watch.run, args=(shutdown,), name="health", daemon=True).start()
    Dispatcher(settings, database, [WebhookQueue(), CallQueue(), NotificationQueue()]).run(shutdown)
    database.close()


if __name__ == "__main__":
    main()
