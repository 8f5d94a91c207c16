from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pydantic import SecretStr

from core.infra.secrets import load_service_key, write_private
from core.infra.settings import Settings


def test_the_key_is_made_once_and_kept(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path / "data")
    with ThreadPoolExecutor(16) as pool:
        keys = set(pool.map(lambda _: load_service_key(settings), range(64)))
    assert len(keys) == 1
    assert len(keys.pop()) == 32
    path = settings.data / "secret-key"
    assert path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in settings.data.iterdir()] == ["secret-key"]


def test_a_key_from_the_settings_leaves_no_file(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path, secret_key=SecretStr("0123456789abcdef" * 2))
    assert len(load_service_key(settings)) == 32
    assert not list(tmp_path.iterdir())


def test_a_private_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "spec.json"
    path.write_text("old")
    write_private(path, "new")
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("new", 0o600)


def test_a_key_that_is_too_short_is_not_shown_when_it_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SPINDLE_SECRET_KEY", "hunter2")
    with pytest.raises(ValueError, match="secret_key") as refused:
        Settings()
    assert "hunter2" not in str(refused.value)
