"""Language models: a client of two protocols, with answers checked against a schema, and budgets."""

from __future__ import annotations

from pipelines.models.budget import Allowance, Budget, Usage
from pipelines.models.client import ModelClient
from pipelines.models.failures import ModelFailed
from pipelines.models.ledger import HostLedger
from pipelines.models.model_choice import PROVIDERS, Model, choose_model
from pipelines.models.options import ModelOptions

__all__ = [
    "PROVIDERS",
    "Allowance",
    "Budget",
    "HostLedger",
    "Model",
    "ModelClient",
    "ModelFailed",
    "ModelOptions",
    "Usage",
    "choose_model",
]
