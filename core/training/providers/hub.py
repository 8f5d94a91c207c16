"""Repositories of the Hugging Face Hub: made, committed to, and read."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from core.training.providers.client import JSON, ProviderClient, get_records, get_text, get_whole
from core.training.providers.protocol import ModelFile
from pipelines.http_client.client import FileBody

SAMPLE_BYTES = 512
CONFLICT = 409
LFS = {"Accept": "application/vnd.git-lfs+json", "Content-Type": "application/vnd.git-lfs+json"}
PREFIXES = {"model": "", "dataset": "datasets/"}


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file of this machine and its path in the repository."""

    name: str
    source: Path

    @property
    def size(self) -> int:
        return self.source.stat().st_size


class HubRepository:
    """One repository, a model or a dataset, as its owner's key reaches it."""

    def __init__(self, client: ProviderClient, kind: str, repository_id: str) -> None:
        self._client = client
        self._kind = kind
        self.id = repository_id

    @classmethod
    def create(cls, client: ProviderClient, kind: str, namespace: str, name: str, *, is_own: bool) -> HubRepository:
        """Make a private repository of the key's user or an organization; one that is there already stays as it is."""
        owner = {} if is_own else {"organization": namespace}
        body = json.dumps({"name": name, "type": kind, "private": True, **owner}).encode()
        client.send("POST", "/api/repos/create", JSON, body, accepted=CONFLICT)
        return cls(client, kind, f"{namespace}/{name}")

    def commit(self, files: Sequence[HubFile], summary: str) -> None:
        """Add files in one commit; those that the Hub calls large are sent to its file storage before."""
        asked = [{"path": each.name, "size": each.size, "sample": _encode(_read_sample(each))} for each in files]
        answer = self._client.post(f"/api/{self._kind}s/{self.id}/preupload/main", {"files": asked})
        modes = {get_text(each, "path"): get_text(each, "uploadMode") for each in get_records(answer, "files")}
        lines: list[Any] = [{"key": "header", "value": {"summary": summary, "description": ""}}]
        for file in files:
            if modes.get(file.name) == "lfs":
                lines.append({"key": "lfsFile", "value": self._store_large_file(file)})
            else:
                content = _encode(file.source.read_bytes())
                lines.append({"key": "file", "value": {"path": file.name, "encoding": "base64", "content": content}})
        body = "\n".join(map(json.dumps, lines)).encode()
        path = f"/api/{self._kind}s/{self.id}/commit/main"
        self._client.send("POST", path, {"Content-Type": "application/x-ndjson"}, body)

    def open_files(self) -> list[ModelFile]:
        """Open every file of the newest commit; a file is requested when it is read."""
        tree = get_records(self._client.get(f"/api/{self._kind}s/{self.id}/tree/main?recursive=true"))
        files = [(get_text(each, "path"), get_whole(each, "size")) for each in tree if each.get("type") == "file"]
        return [ModelFile(name, size, self._read_file(name)) for name, size in files if name]

    def _read_file(self, name: str) -> Generator[bytes]:
        yield from self._client.open_stream(f"/{PREFIXES[self._kind]}{self.id}/resolve/main/{quote(name)}")

    def _store_large_file(self, file: HubFile) -> dict[str, Any]:
        """Send a file by Git LFS unless the Hub has it, and return its pointer."""
        with file.source.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
        asked = {"operation": "upload", "transfers": ["basic"], "hash_algo": "sha256"}
        body = json.dumps({**asked, "objects": [{"oid": digest, "size": file.size}]}).encode()
        path = f"/{PREFIXES[self._kind]}{self.id}.git/info/lfs/objects/batch"
        answer = self._client.read_json(self._client.send("POST", path, LFS, body))
        found = next(iter(get_records(answer, "objects")), {})
        actions: Any = found.get("actions") or {}
        if address := get_text(actions.get("upload"), "href"):
            headers: dict[str, str] = actions["upload"].get("header") or {}
            with file.source.open("rb") as content:
                self._client.send("PUT", address, headers, FileBody(content, file.size))
        if address := get_text(actions.get("verify"), "href"):
            self._client.send("POST", address, LFS, json.dumps({"oid": digest, "size": file.size}).encode())
        return {"path": file.name, "algo": "sha256", "oid": digest, "size": file.size}


def _read_sample(file: HubFile) -> bytes:
    with file.source.open("rb") as content:
        return content.read(SAMPLE_BYTES)


def _encode(content: bytes) -> str:
    return base64.b64encode(content).decode()
