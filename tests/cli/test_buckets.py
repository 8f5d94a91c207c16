"""Access to buckets without a server."""

from __future__ import annotations

import pytest

from cli.buckets import find_bucket_access
from pipelines.errors import RunError
from pipelines.pipeline import Pipeline


def test_a_bucket_without_keys_says_which_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/dev/null")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    plan = Pipeline.from_yaml("pipeline: [{stage: load_csv, args: ['s3://theirs/in.csv']}]").plan()
    with pytest.raises(RunError, match="s3://theirs needs keys: set AWS_ACCESS_KEY_ID"):
        find_bucket_access(plan)
