"""Inference: a prompt becomes selectors that are proven on pages which they were not made from."""

from __future__ import annotations

from pipelines.inference.drift import Drift, RunStatistics, find_drift
from pipelines.inference.page_reader import PageReader
from pipelines.inference.prompts import make_question
from pipelines.inference.proving import Inference, infer
from pipelines.inference.questions import Sample
from pipelines.inference.reading import read_items, read_values
from pipelines.inference.records import Candidate, ProvenField, ProvenSelectors, Reading
from pipelines.inference.repairs import Repair, choose_repair
from pipelines.inference.templates import Templates, get_features

__all__ = [
    "Candidate",
    "Drift",
    "Inference",
    "PageReader",
    "ProvenField",
    "ProvenSelectors",
    "Reading",
    "Repair",
    "RunStatistics",
    "Sample",
    "Templates",
    "choose_repair",
    "find_drift",
    "get_features",
    "infer",
    "make_question",
    "read_items",
    "read_values",
]
