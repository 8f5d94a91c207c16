"""The fields that requests about trainings set."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from core.errors import BadInput
from core.infra.changes import Changes, example
from core.infra.validation import check_storable

MAX_HYPERPARAMETERS = 100


class TrainingRequest(Changes):
    """The data is a dataset, by `datasetId` or by its path as `trainingFile`, or a file of the storage."""

    model_config = example(
        {
            "model": "small",
            "datasetId": "01a1fe8d-908f-7f00-a12a-dce377429a92",
            "hyperparameters": {"n_epochs": 2},
        }
    )

    model: str = Field(description="Name of the model that is trained further, as the provider lists it.")
    training_file: str | None = None
    """Path of a dataset or file in the organization's storage, or the provider's id of a file (`file-...`)."""
    validation_file: str | None = None
    """Likewise, for validation."""
    dataset_id: str | None = None
    """Id of the dataset whose current version is the training data, in place of `trainingFile`."""
    hyperparameters: dict[str, Any] = Field(default_factory=dict)
    """Passed to the provider as they are, such as `n_epochs`."""
    cloud_credential_id: str | None = None
    """Id of the credential; the default one of the provider when left out."""

    def check(self) -> None:
        """Raise BadInput for texts that cannot be stored, or a request without data."""
        for name, value in (
            ("model", self.model),
            ("trainingFile", self.training_file or ""),
            ("validationFile", self.validation_file or ""),
            ("hyperparameters", self.hyperparameters),
        ):
            check_storable(name, value)
        if not self.model.strip():
            raise BadInput("'model' is empty.", code="missing-field", path="model")
        if not self.training_file and not self.dataset_id:
            sentence = "Send the 'datasetId' of a dataset, or the path of one as 'trainingFile'."
            raise BadInput(sentence, code="missing-field", path="trainingFile")
        if len(self.hyperparameters) > MAX_HYPERPARAMETERS:
            raise BadInput(f"There are more than {MAX_HYPERPARAMETERS} hyperparameters.", path="hyperparameters")


class TrainingDatasetRequest(Changes):
    model_config = example({"localPath": "spindle://default/reviews", "description": "Reviews with their labels"})

    local_path: str = Field(description="Path of a dataset or file in the organization's storage.")
    format: str | None = None
    """Format of the file, csv, jsonl or parquet; found out by itself when left out."""
    description: str | None = None


class ModelPublication(Changes):
    model_config = example({"localModelPath": "models/reviews", "modelName": "reviews"})

    local_model_path: str = Field(description="Path of a file or folder in the organization's storage.")
    model_name: str = Field(
        description="Name of the repository on the Hub, in the account of the key, or `owner/name`."
    )
    description: str | None = None
    """Text of the model's page."""
