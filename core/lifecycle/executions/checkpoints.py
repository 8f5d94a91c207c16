"""The checkpoints of an execution's attempts, from which a retry resumes. The driver writes and checks them."""

from __future__ import annotations

from collections.abc import Sequence

from core.infra.storage.protocol import Storage, checkpoints_key
from core.tables import Execution

MARKER = ".checkpoint"  # the end of the name of the file that makes a checkpoint whole


def list_checkpoint_folders(execution: Execution) -> Sequence[str]:
    """Return the keys of the folders for checkpoints, that of the current attempt first."""
    attempts = range(execution.attempt, 0, -1)
    return [checkpoints_key(execution.organization_id, execution.id, attempt) for attempt in attempts]


def find_resume_step(storage: Storage, execution: Execution) -> str | None:
    """Return the key of the step that the current attempt will presumably resume after, None without a checkpoint.

    The driver decides: it also checks that the checkpoint is whole and of the same engine.
    """
    found = {
        file.key.rpartition("/")[2].removesuffix(MARKER)
        for folder in list_checkpoint_folders(execution)[1:]
        for file in storage.list(folder)
        if file.key.endswith(MARKER)
    }
    return next((step["key"] for step in reversed(execution.steps) if step["key"] in found), None)


def delete_checkpoints(storage: Storage, execution: Execution) -> None:
    """Delete the checkpoints of all attempts."""
    for folder in list_checkpoint_folders(execution):
        for file in [*storage.list(folder)]:
            storage.delete(file.key)
