"""The parts of the training service, put together from the settings."""

from __future__ import annotations

from core.data.datasets.service import DatasetService
from core.data.files.process import open_file_reader
from core.infra.database import open_database
from core.infra.installation import open_guarded_storage
from core.infra.settings import Settings
from core.training.service import TrainingService
from core.training.sources import SourceReader


def open_training_service(settings: Settings) -> TrainingService:
    """Return a service with its own connections, for the trainer process."""
    database, files = open_database(settings), open_file_reader(settings)
    storage = open_guarded_storage(settings, database)
    datasets = DatasetService(settings, storage, files)
    return TrainingService(settings, database, storage, SourceReader(settings, database, storage, datasets, files))
