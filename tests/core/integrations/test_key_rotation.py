"""Another service key: all that is sealed opens again, wherever the rotation was killed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import SecretStr
from typer.testing import CliRunner

from cli.data_folder import lock_data_folder
from cli.main import main
from core.definitions.credentials.repository import CredentialRepository, bind_credential, decrypt_environment
from core.errors import Conflict
from core.infra.database import Database, database_url
from core.infra.encryption import KeyRing
from core.infra.secrets import load_service_key
from core.infra.settings import Settings
from core.integrations.key_rotation import finish_rotation, rotate_service_key
from core.integrations.webhooks.models import WebhookCreate
from core.integrations.webhooks.repository import WebhookRepository, bind_webhook
from core.lifecycle.tasks.models import TaskCreate
from core.lifecycle.tasks.repository import TaskRepository, bind_task
from core.tables import CloudCredential, Execution, Task, Webhook
from tests.support.shop import Shop

CANARY = "canary-4711"
OLD, NEW = SecretStr("the old key of thirty-two letters"), SecretStr("the new key of thirty-two letters")


@pytest.fixture
def sealed(shop: Shop) -> Shop:
    """Credentials of an organization and a caller's own key, a running execution and a webhook."""
    services = shop.make_key_ring()
    shop.add_credential("OPENAI", api_key=CANARY, api_secret="x")
    shop.add_credential("AWS", "a key of their own", api_key=CANARY)
    with shop.database.write() as session:
        WebhookRepository(session, shop.organization_id).create(
            shop.settings, services, shop.project_id, WebhookCreate(url="https://example.com/hook")
        )
    shop.submit()
    with shop.database.write() as session:
        tasks = TaskRepository(session, shop.organization_id)
        task = tasks.create(shop.project_id, shop.job_id, TaskCreate(name="with a key")).task
        tasks.store_api_key(task, CANARY, services)
    return shop


def opened(shop: Shop, settings: Settings) -> list[str]:
    """What opens with these settings' key, in the database as it is."""
    key_ring = KeyRing(load_service_key(settings), "a key of their own")
    with shop.database.read() as session:
        chosen = CredentialRepository(session, shop.organization_id).select_for_execution([], key_ring)
        execution = session.query(Execution).one()
        values = [decrypt_environment(execution, key_ring)["OPENAI_API_KEY"]]
        for credential in chosen:
            values += [
                key_ring.decrypt(text, bind_credential(credential, field)) for field, text in credential.secrets.items()
            ]
        values += [
            key_ring.decrypt(webhook.secret, bind_webhook(webhook, "secret"))[:6] for webhook in session.query(Webhook)
        ]
        keyed = session.query(Task).where(Task.sealed_api_key.is_not(None))
        values += [key_ring.decrypt(task.sealed_api_key or "", bind_task(task)) for task in keyed]
    return sorted(values)


def texts(shop: Shop) -> list[str]:
    with shop.database.read() as session:
        return [text for row in session.query(CloudCredential) for text in row.secrets.values()]


def test_everything_opens_only_under_the_new_key(sealed: Shop) -> None:
    old_key, before = load_service_key(sealed.settings), texts(sealed)
    rotation = rotate_service_key(sealed.settings, sealed.database)
    assert (rotation.values, rotation.unreadable) == (6, 0)
    assert load_service_key(sealed.settings) != old_key
    assert opened(sealed, sealed.settings) == [*[CANARY] * 4, "whsec_", "x"]
    with pytest.raises(Conflict, match="another service key"):
        opened(sealed, _with_key(sealed, old_key))
    kept = [text for text in texts(sealed) if text in before]
    assert [text.partition("-")[0] for text in kept] == ["caller"]


def _with_key(shop: Shop, key: bytes) -> Settings:
    folder = shop.settings.data / "old"
    folder.mkdir(exist_ok=True)
    (folder / "secret-key").write_text(key.hex())
    return Settings(data=folder)


KILLED_AT = {
    "with the new key made": "rotation._reencrypt_all = die",
    "half-way through the values": "sealing.KeyRing.reencrypt = after(sealing.KeyRing.reencrypt, 2)",
    "with all sealed, before the key's file": "pathlib.Path.replace = die",
}
SCRIPT = """
import os, pathlib, signal, sys
from core.integrations import key_rotation as rotation
from core.infra import encryption as sealing
from core.infra.database import open_database
from core.infra.settings import Settings

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

def after(original, times):
    left = [times]
    def call(*arguments):
        left[0] -= 1
        return original(*arguments) if left[0] >= 0 else die()
    return call

settings = Settings()
database = open_database(settings)
exec(sys.argv[1])
rotation.rotate_service_key(settings, database)
"""


@pytest.mark.parametrize("point", KILLED_AT)
def test_a_rotation_that_was_killed_is_finished_by_the_next_start(sealed: Shop, point: str) -> None:
    old_key = load_service_key(sealed.settings)
    told = {"SPINDLE_DATA": str(sealed.settings.data), "SPINDLE_DATABASE_URL": database_url(sealed.settings)}
    killed = subprocess.run([sys.executable, "-c", SCRIPT, KILLED_AT[point]], env=os.environ | told, check=False)
    assert killed.returncode == -9
    assert load_service_key(sealed.settings) == old_key
    finish_rotation(sealed.settings, sealed.database)
    assert load_service_key(sealed.settings) != old_key
    assert opened(sealed, sealed.settings) == [*[CANARY] * 4, "whsec_", "x"]
    assert not (sealed.settings.data / "secret-key.next").exists()


def test_a_key_that_is_a_setting_is_followed_by_another(shop: Shop, database: Database) -> None:
    before = shop.settings.replace(secret_key=OLD)
    shop.settings = before
    shop.add_credential("OPENAI", api_key=CANARY)
    shop.submit()
    with pytest.raises(Conflict, match="SPINDLE_NEW_SECRET_KEY"):
        rotate_service_key(before, database)
    told = before.replace(new_secret_key=NEW)
    for _ in range(2):  # again, it finds all done
        assert rotate_service_key(told, database).unreadable == 0
    assert opened(shop, before.replace(secret_key=NEW)) == [CANARY, CANARY]


def test_a_secret_that_no_key_opens_stays_and_is_reported(sealed: Shop) -> None:
    (sealed.settings.data / "secret-key").unlink()
    before = texts(sealed)
    rotation = rotate_service_key(sealed.settings, sealed.database)
    assert rotation.unreadable == 5
    assert texts(sealed) == before


def test_the_command_needs_the_server_stopped(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    with lock_data_folder(data):
        refused = CliRunner().invoke(main, ["secrets", "rotate", "--data", str(data)])
    assert (refused.exit_code, "Another Spindle is running" in refused.output) == (1, True)
    missing = CliRunner().invoke(main, ["secrets", "rotate", "--data", str(tmp_path / "none")])
    assert (missing.exit_code, missing.output) == (
        1,
        f"There is no data folder {tmp_path / 'none'}. Make it, or give another with --data.\n",
    )
