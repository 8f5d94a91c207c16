"""Files of trained models: from the storage or their provider, as a stream, and stored under a name."""

from __future__ import annotations

import zipfile
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from io import BytesIO, RawIOBase
from pathlib import PurePosixPath

from core.definitions.identity.api_keys import Identity
from core.errors import BadInput, Conflict
from core.infra.encryption import KeyRing
from core.infra.storage.protocol import InvalidKey, Storage, models_key, training_key
from core.tables import Training
from core.tables.states import State
from core.training.providers.protocol import ModelFile
from core.training.service import TrainingService

MODEL = "model"
CHUNK_BYTES = 2**20
MAX_PATH = 500


@dataclass(frozen=True, slots=True)
class ModelDownload:
    """A trained model as one stream: its file, or a zip of its files."""

    name: str
    chunks: Generator[bytes]


def open_download(
    service: TrainingService,
    caller: Identity,
    provider: str,
    training_id: str,
    output_path: str | None,
    key_ring: KeyRing,
) -> ModelDownload:
    """Open the model of a completed training; with a path, store its files there too.

    Raise Conflict for a training that has not completed, or whose provider keeps the weights.
    """
    with service.database.read() as session:
        training = service.get(session, caller, provider, training_id)
    if training.state != State.COMPLETED:
        sentence = f"The training is {training.state}, so there is no model. {training.error or ''}".strip()
        raise Conflict(sentence, code="training-unfinished")
    target = None if output_path is None else _find_target(service.storage, caller.organization_id, output_path)
    files = _open_stored(service.storage, f"{training_key(training.organization_id, training.id)}/{MODEL}")
    if not files:
        opened = service.open_provider_of(training, key_ring)
        files = opened.open_files(training.provider_job_id or training.id, training.result)
    if target is not None:
        _store_all(service.storage, target, files)
        files = _open_stored(service.storage, target)
    return _make_download(training, files)


def delete_folder(storage: Storage, folder: str) -> None:
    """Delete the files of a folder."""
    for file in [*storage.list(folder)]:
        storage.delete(file.key)


class ChunkReader(BytesIO):
    """Chunks as a stream that is read once."""

    def __init__(self, chunks: Generator[bytes]) -> None:
        super().__init__()
        self._chunks = chunks
        self._rest = b""

    def read(self, size: int | None = -1, /) -> bytes:
        while size is None or size < 0 or not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                break
            self._rest += chunk
        end = len(self._rest) if size is None or size < 0 else size
        taken, self._rest = self._rest[:end], self._rest[end:]
        return taken


def read_stored(storage: Storage, key: str) -> Generator[bytes]:
    """Yield the content of a stored file."""
    with storage.open(key) as content:
        while chunk := content.read(CHUNK_BYTES):
            yield chunk


def _open_stored(storage: Storage, folder: str) -> list[ModelFile]:
    start = len(folder) + 1
    files = storage.list(folder)
    return [ModelFile(file.key[start:], file.size_bytes, read_stored(storage, file.key)) for file in files]


def _find_target(storage: Storage, organization_id: str, path: str) -> str:
    """Return the key of a folder for models that a user names; nothing else of the storage is written to."""
    folder = models_key(organization_id)
    key = storage.find_key(path) or f"{folder}/{path.removeprefix('models/')}"
    names = key.split("/")
    wrong = any(name.strip() in ("", ".", "..") or "\0" in name for name in names) or "://" in path
    if wrong or not key.startswith(f"{folder}/") or len(path) > MAX_PATH:
        sentence = "'outputPath' is a path below models/ of the organization's storage, such as reviews/v1."
        raise BadInput(sentence, code="path-outside-storage", path="outputPath")
    return key


def _store_all(storage: Storage, folder: str, files: Sequence[ModelFile]) -> None:
    """Store all files, or none: the folder is emptied before, and after a failure."""
    delete_folder(storage, folder)
    try:
        for file in files:
            with closing(file.chunks):
                storage.put(f"{folder}/{file.name}", ChunkReader(file.chunks))
    except BaseException as error:
        delete_folder(storage, folder)
        if isinstance(error, InvalidKey):
            raise Conflict("A file of the model has a name that cannot be stored.") from error
        raise


def _make_download(training: Training, files: Sequence[ModelFile]) -> ModelDownload:
    if len(files) == 1:
        return ModelDownload(PurePosixPath(files[0].name).name, files[0].chunks)
    return ModelDownload(f"{training.id}.zip", _zip(files))


def _zip(files: Sequence[ModelFile]) -> Generator[bytes]:
    """Yield a zip of the files, one chunk of one of them in memory at a time."""
    target = _Buffer()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for file in files:
            with archive.open(zipfile.ZipInfo(file.name), "w", force_zip64=True) as entry, closing(file.chunks):
                for chunk in file.chunks:
                    entry.write(chunk)
                    yield target.take()
            yield target.take()
    yield target.take()


class _Buffer(RawIOBase):
    """A stream that a zip is written to, and taken from."""

    def __init__(self) -> None:
        super().__init__()
        self._written = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: bytes, /) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        self._written += data
        return len(data)

    def take(self) -> bytes:
        taken = bytes(self._written)
        self._written.clear()
        return taken
