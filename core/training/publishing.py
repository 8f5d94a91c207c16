"""Data sets sent to a provider, and models published on the Hub."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from core.definitions.identity.api_keys import Identity
from core.errors import BadInput
from core.infra.encryption import KeyRing
from core.infra.repository import lock_organization
from core.infra.storage.protocol import training_key
from core.infra.validation import check_storable
from core.tables import TrainingDataset, new_id
from core.training.downloads import MODEL
from core.training.examples import TRAIN, VALIDATION, write_examples
from core.training.models import ModelPublication, TrainingDatasetRequest
from core.training.providers.hub import HubFile
from core.training.providers.huggingface import HuggingFaceProvider
from core.training.providers.registry import HUB, LOCAL, find_access, open_provider, parse_provider_name
from core.training.repository import TrainingRepository
from core.training.service import TrainingService

FORMATS = ("csv", "jsonl", "json", "parquet")
REPOSITORY = re.compile(r"(?:(?P<owner>[A-Za-z0-9][A-Za-z0-9._-]{0,95})/)?(?P<name>[A-Za-z0-9][A-Za-z0-9._-]{0,95})")
README = "README.md"


def create_dataset(
    service: TrainingService, caller: Identity, provider: str, request: TrainingDatasetRequest, key_ring: KeyRing
) -> TrainingDataset:
    """Convert a file or dataset to examples, split it, and send both parts to the provider.

    A training whose `trainingFile` is the same path uses them. Raise BadInput for a row that is no example.
    """
    name = parse_provider_name(provider)
    check_storable("localPath", request.local_path)
    check_storable("description", request.description or "")
    if request.format is not None and request.format.lower() not in FORMATS:
        raise BadInput("'format' is csv, jsonl or parquet.", path="format")
    owner = caller.organization_id
    with service.database.read() as session:
        opened = open_provider(service.settings, name, find_access(session, owner, name, key_ring))
        source = service.sources.find(session, owner, request.local_path, None, "localPath")
        if source is None or source["kind"] == "provider":
            raise BadInput(
                "'localPath' is a path in the organization's storage.", code="missing-field", path="localPath"
            )
        service.sources.check(session, owner, source, opened.example_format, "localPath")
    dataset_id = new_id()
    with service.sources.open_scratch() as scratch:
        lines = service.sources.read_lines(owner, source, "localPath")
        made = write_examples(lines, opened.example_format, scratch, "localPath", split=True)
        parts = {"train": (TRAIN, made.train)}
        if made.validation is not None and made.validation.stat().st_size:
            parts["validation"] = (VALIDATION, made.validation)
        files: dict[str, object] = {}
        for role, (file_name, path) in parts.items():
            if name == LOCAL:
                key = f"{training_key(owner, dataset_id)}/{file_name}"
                with path.open("rb") as content:
                    service.storage.put(key, content)
                files[role] = {"kind": "file", "key": key}
            else:
                files[role] = {"kind": "provider", "id": opened.upload_file(dataset_id, file_name, path)}
    with service.database.write() as session:
        lock_organization(session, owner)
        known = TrainingRepository(session, owner).find_dataset(name, request.local_path)
        row = known or TrainingDataset(
            id=dataset_id, organization_id=owner, provider=name, path=request.local_path, files={}, examples=0
        )
        row.files, row.examples, row.description = files, made.examples, request.description
        session.add(row)
        session.flush()
        return row


def publish_model(
    service: TrainingService, caller: Identity, provider: str, request: ModelPublication, key_ring: KeyRing
) -> None:
    """Commit a file or folder of the storage to a private model on the Hub, which is made if there is none.

    Its name may begin with its owner: the key's user, or an organization in which the key may write.
    """
    if parse_provider_name(provider) != HUB:
        raise BadInput("Models are published on the Hub: the provider is huggingface.", path="provider")
    check_storable("description", request.description or "")
    named = REPOSITORY.fullmatch(request.model_name)
    if not named:
        sentence = (
            "'modelName' is NAME or OWNER/NAME, each of 1 to 96 letters, digits, points, hyphens and underscores."
        )
        raise BadInput(sentence, path="modelName")
    with service.database.read() as session:
        access = find_access(session, caller.organization_id, HUB, key_ring)
    key = service.sources.find_key(caller.organization_id, request.local_model_path, "localModelPath")
    if not _is_model(key.removeprefix(f"{caller.organization_id}/")):
        sentence = "'localModelPath' is below 'models/', or the model of a training: other files are not published."
        raise BadInput(sentence, path="localModelPath")
    hub = HuggingFaceProvider(service.settings, access.fields)
    with service.sources.open_scratch() as scratch:
        files = _copy_files(service, key, scratch)
        if request.description and not any(file.name == README for file in files):
            page = scratch / README
            page.write_text(f"# {named['name']}\n\n{request.description}\n")
            files.append(HubFile(README, page))
        hub.open_repository("model", named["name"], named["owner"]).commit(files, "Add the model")


def _is_model(key: str) -> bool:
    folder, _, rest = key.partition("/")
    return folder == "models" or (folder == "trainings" and rest.split("/")[1:2] == [MODEL])


def _copy_files(service: TrainingService, key: str, scratch: Path) -> list[HubFile]:
    """Copy a file, or all files of a folder, from the storage."""
    keys = [file.key for file in service.storage.list(key)] or [key]
    start = len(key) + 1 if keys != [key] else key.rfind("/") + 1
    files: list[HubFile] = []
    for number, each in enumerate(keys):
        target = scratch / str(number)
        with service.storage.open(each) as content, target.open("wb") as copy:
            shutil.copyfileobj(content, copy)
        files.append(HubFile(each[start:], target))
    return files
