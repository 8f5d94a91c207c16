"""`spindle run` on buckets, with a person's own keys from AWS's variables or files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bin.test_scripts import run
from tests.support.libraries import needs_libraries
from tests.support.s3 import Bucket, delete_bucket, get_bucket

PIPELINE = """
pipeline:
  - {{stage: load_csv, args: [{{path: "s3://{name}/mine/in/*.csv"{credential}}}]}}
  - {{stage: save_csv, args: ["s3a://{name}/mine/saved"]}}
output: {{path: "s3://{name}/mine/published", format: json}}
"""
ONE_FILE = """
pipeline:
  - {{stage: load_csv, args: ["s3://{name}/mine/in/*.csv"]}}
  - {{stage: save_csv, args: ["s3://{name}/mine/files/rows.csv", {mode}]}}
output: {{path: "s3://{name}/mine/files/rows.jsonl", format: json}}
"""
FILES = """
[default]
region = us-east-1
endpoint_url = {endpoint}
aws_access_key_id = {key}
aws_secret_access_key = {default_secret}
[profile mine]
region = us-east-1
endpoint_url = {endpoint}
aws_access_key_id = {key}
aws_secret_access_key = {secret}
"""


@pytest.fixture(scope="module")
def mine() -> Iterator[Bucket]:
    made = get_bucket().create_other()
    made.put("in/a.csv", b"title\none\n")
    made.put("in/b.csv", b"title\ntwo\n")
    yield made
    delete_bucket(made)


def write_files(mine: Bucket, folder: Path, default_secret: str) -> dict[str, str]:
    """Return the environment of a person whose profile `mine` reaches the bucket."""
    values = {"endpoint": mine.endpoint, "key": mine.access_key, "secret": mine.secret_key}
    (folder / "config").write_text(FILES.format(default_secret=default_secret, **values))
    nothing = dict.fromkeys(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL"), "")
    return {**nothing, "AWS_CONFIG_FILE": str(folder / "config"), "AWS_SHARED_CREDENTIALS_FILE": "/dev/null"}


@pytest.mark.long
@needs_libraries
def test_buckets_are_read_and_written_with_a_profile(mine: Bucket, tmp_path: Path) -> None:
    environment = write_files(mine, tmp_path, "not the key")
    (tmp_path / "p.yaml").write_text(PIPELINE.format(name=mine.name, credential=", credential: mine"))
    done = run("bin/spindle", "run", str(tmp_path / "p.yaml"), "-o", str(tmp_path / "rows.jsonl"), **environment)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line)["title"] for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert rows == ["one", "two"]
    assert sorted("".join(mine.get(key).decode() for key in mine.list("saved")).split()) == [
        "one",
        "title",
        "title",
        "two",
    ]
    published = "".join(mine.get(key).decode() for key in mine.list("published")).splitlines()
    assert sorted(json.loads(line)["title"] for line in published) == ["one", "two"]
    assert mine.secret_key not in done.stderr


@pytest.mark.long
@needs_libraries
def test_a_name_of_a_file_is_one_file_in_the_bucket(mine: Bucket, tmp_path: Path) -> None:
    environment = write_files(mine, tmp_path, mine.secret_key)
    mine.put("files/rows.jsonl/part-0.json", b"{}\n")  # what an earlier release wrote
    mine.put("files/rows.csv", b"an earlier run")
    for mode, code in (("overwrite", 0), ("append", 1)):
        text = ONE_FILE.format(name=mine.name, mode=mode)
        (tmp_path / "p.yaml").write_text(text)
        done = run("bin/spindle", "run", str(tmp_path / "p.yaml"), **environment)
        assert done.returncode == code, done.stderr
    assert "cannot be lengthened" in " ".join(done.stderr.split())
    assert mine.get("files/rows.csv").decode().splitlines() == ["title", "one", "two"]
    rows = [json.loads(line)["title"] for line in mine.get("files/rows.jsonl").decode().splitlines()]
    assert rows == ["one", "two"]
    assert [key.rpartition("/")[2] for key in mine.list("files")] == ["rows.csv", "rows.jsonl"]


@needs_libraries
@pytest.mark.parametrize(
    ("name", "credential", "reason"),
    [
        ("{name}", "", "secret key"),
        ("{name}-none", ", credential: mine", "no such bucket"),
        ("{name}", ", credential: nobody", "line 3"),
    ],
)
def test_what_is_wrong_is_said_before_spark_starts(
    mine: Bucket, tmp_path: Path, name: str, credential: str, reason: str
) -> None:
    environment = write_files(mine, tmp_path, "not the key")
    (tmp_path / "p.yaml").write_text(PIPELINE.format(name=name.format(name=mine.name), credential=credential))
    done = run("bin/spindle", "run", str(tmp_path / "p.yaml"), **environment)
    assert done.returncode == 1
    assert reason in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert "load_csv s3" not in done.stderr, "no run has started"
