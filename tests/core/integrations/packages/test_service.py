"""Packages in storage: exports, uploads, imports and their retention."""

from __future__ import annotations

import io
import os
import sqlite3
from contextlib import closing
from typing import Any

import pytest

from core.definitions.agents.plan_outline import outline_pipeline
from core.errors import BadInput
from core.infra.storage.protocol import packages_key
from core.integrations.packages.service import PackageService
from tests.core.integrations.packages.test_import import exported, fill
from tests.support.shop import PIPELINE, Shop


@pytest.fixture
def packages(shop: Shop) -> PackageService:
    return PackageService(shop.settings, shop.database, shop.storage)


def stored_keys(shop: Shop) -> list[str]:
    return [file.key for file in shop.storage.list(packages_key(shop.organization_id))]


def assert_database_is_writable(shop: Shop) -> None:
    with closing(sqlite3.connect(shop.settings.data / "spindle.db", timeout=0)) as other:
        other.execute("BEGIN IMMEDIATE")


def test_pipelines_are_checked_outside_the_transaction_and_once(
    shop: Shop, other_shop: Shop, packages: PackageService, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shop.settings.database.url is not None:
        pytest.skip("PostgreSQL accepts several writers")
    fill(shop)
    upload = packages.create_upload(other_shop.caller)
    packages.store_upload(upload, io.BytesIO(exported(shop)))
    checked: list[str] = []

    def check(text: str, *_: object) -> Any:
        assert_database_is_writable(shop)
        checked.append(text)
        return outline_pipeline(text)

    for name in (
        "core.definitions.agents.texts.outline_pipeline",
        "core.definitions.agents.repository.check_pipeline",
    ):
        monkeypatch.setattr(name, check)
    packages.import_upload(other_shop.caller, upload)
    assert PIPELINE in checked
    assert len(checked) == len(set(checked))


@pytest.mark.folder
def test_an_export_is_written_to_disk_outside_the_transaction(
    shop: Shop, packages: PackageService, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shop.settings.database.url is not None:
        pytest.skip("PostgreSQL accepts several writers")
    synced: list[int] = []

    def fsync(descriptor: int) -> None:
        assert_database_is_writable(shop)
        synced.append(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    packages.export(shop.caller)
    assert synced


@pytest.mark.folder
def test_an_unchanged_export_is_stored_again_after_a_week(shop: Shop, packages: PackageService) -> None:
    packages.export(shop.caller)
    (key,) = stored_keys(shop)
    os.utime(shop.storage.url_for(key, "spark"), (0, 0))
    again = packages.export(shop.caller)
    with packages.open_content(packages.find_linked(again)) as content:
        assert content.read() == exported(shop)


def test_an_invalid_upload_is_not_stored(shop: Shop, packages: PackageService) -> None:
    package = bytearray(exported(shop))
    package[100] ^= 1
    with pytest.raises(BadInput):
        packages.store_upload(packages.create_upload(shop.caller), io.BytesIO(package))
    assert stored_keys(shop) == []
