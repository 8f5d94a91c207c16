"""What a bucket adds to the contract of Storage: settings, reasons of refusals, signed addresses."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from cli.data_folder import prepare
from core.errors import Unavailable
from core.infra.installation import ForeignInstallation
from core.infra.settings import Settings
from core.infra.storage import load_storage_secrets, open_storage
from pipelines.filesystem import STORAGE_ACCESS, load_storage_access
from tests.support.s3 import Bucket, get_bucket
from tests.support.service import free_port


@pytest.fixture
def bucket() -> Bucket:
    return get_bucket()


WRONG: tuple[tuple[str, dict[str, Any]], ...] = (
    ("bucket does not exist", {"storage": "s3://no-such-bucket-here/prefix"}),
    ("access key", {"s3_access_key_id": "nobody"}),
    ("secret key", {"s3_secret_access_key": "wrong"}),
    ("does not answer", {"s3_endpoint": f"http://127.0.0.1:{free_port()}"}),
    ("does not answer", {"s3_endpoint": "http://no-such-host.invalid"}),
)


@pytest.mark.parametrize(("reason", "changes"), WRONG, ids=[reason for reason, _ in WRONG])
def test_a_storage_that_cannot_be_used_tells_why(
    bucket: Bucket, reason: str, changes: dict[str, Any], tmp_path: Path
) -> None:
    settings = Settings(data=tmp_path, **(bucket.settings | changes))
    for use in (lambda: open_storage(settings.storage).check(), lambda: list(open_storage(settings.storage).list("o"))):
        with pytest.raises(Unavailable) as raised:
            use()
        assert [detail.code for detail in raised.value.details] == ["storage-unavailable"]
        assert reason in raised.value.sentence
        assert not any(secret in raised.value.sentence for secret in ("wrong", "nobody", "127.0.0.1"))


def test_a_clock_that_is_off_by_an_hour_is_the_reason(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = datetime.now(UTC) + timedelta(hours=1)
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda: late.replace(tzinfo=None))
    with pytest.raises(Unavailable, match="clock") as raised:
        open_storage(Settings(data=tmp_path, **bucket.settings).storage).check()
    assert [detail.code for detail in raised.value.details] == ["storage-unavailable"]


def test_a_prefix_belongs_to_one_database(bucket: Bucket, tmp_path: Path) -> None:
    first, second = (Settings(data=tmp_path / name, **bucket.settings) for name in ("first", "second"))
    prepare(first)
    with pytest.raises(ForeignInstallation, match=f"The storage {bucket.address} belongs to the database"):
        prepare(second)
    prepare(second.replace(storage=f"{bucket.address}/second/"))
    with pytest.raises(ForeignInstallation, match=f"{bucket.address}/second"):
        prepare(first.replace(storage=f"{bucket.address}/second"))
    prepare(first)


def test_a_signed_address_needs_no_key_and_reads_one_file(bucket: Bucket, tmp_path: Path) -> None:
    storage = open_storage(Settings(data=tmp_path, **bucket.settings).storage)
    storage.put("o/a b", io.BytesIO(b"content"))
    url = storage.url_for("o/a b", "signed")
    with urlopen(url) as answer:
        assert answer.read() == b"content"
    assert bucket.secret_key not in url


def test_drivers_get_the_access_as_one_secret(bucket: Bucket, tmp_path: Path) -> None:
    secrets = load_storage_secrets(Settings(data=tmp_path, **bucket.settings).storage)
    access = load_storage_access(secrets)
    assert secrets.keys() == {STORAGE_ACCESS}
    assert (access.bucket, access.endpoint, access.path_style) == (bucket.name, bucket.endpoint, True)
    assert bucket.secret_key in access.secrets
    assert bucket.secret_key not in repr(access)
    assert load_storage_secrets(Settings(data=tmp_path, storage=None).storage) == {}
