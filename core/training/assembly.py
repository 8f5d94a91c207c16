"""The parts of the training service, put together from the settings."""

from __future__ import annotations

from core.data.datasets.service import DatasetService
from core.data.files.process import open_file_reader
from core.infra.database import open_database
from core.infra.settings import Settings
from core.infra.storage import open_storage
from core.training.service import TrainingService
from core.training.sources import SourceReader


def open_training_service(settings: Settings) -> TrainingService:
    """Return a service with its own connections, for the trainer process."""
    database, storage, files = open_database(settings), open_storage(settings.storage), open_file_reader(settings)
    datasets = DatasetService(settings, storage, files)
    return TrainingService(settings, database, storage, SourceReader(settings, database, storage, datasets, files))
