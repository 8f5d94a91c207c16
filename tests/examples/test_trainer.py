"""The example trainer is one that Spindle can run: its loss falls, and its model tells the labels apart."""

from __future__ import annotations

import json
import pickle
import random
import sys
from pathlib import Path

import pytest

from core.infra.settings import Settings
from core.tables import new_id
from core.tables.states import State
from core.training.providers.local import LocalProvider
from core.training.providers.protocol import Job, JobRequest
from tests.support.service import wait_until

SCRIPT = Path(__file__).parents[2] / "examples" / "trainer" / "train.py"
WORDS = {"good": ["lovely", "great", "works", "pretty"], "bad": ["broken", "awful", "leaks", "ugly"]}


def write_reviews(path: Path, count: int, **row: str) -> Path:
    generator = random.Random(7)
    labels = [generator.choice([*WORDS]) for _ in range(count)]
    rows = [{"text": f"a {generator.choice(WORDS[label])} kettle", "label": label, **row} for label in labels]
    path.write_text("".join(json.dumps(each) + "\n" for each in rows))
    return path


def train(folder: Path, model: str, rows: Path) -> tuple[LocalProvider, str, Job]:
    command = f"{sys.executable} {SCRIPT} {{model}} {{train}} {{validation}} {{output}}"
    provider = LocalProvider(Settings(data=folder, trainer=command, trainer_models=("logistic", "svm")))
    training_id = new_id()
    validation = provider.upload_file(training_id, "validation.jsonl", write_reviews(folder / "validation", 20))
    request = JobRequest(training_id, model, provider.upload_file(training_id, "train.jsonl", rows), validation, {})
    job_id = provider.create_job(request)
    wait_until(lambda: provider.get_job(job_id).state.terminal, 120)
    return provider, job_id, provider.get_job(job_id)


@pytest.mark.long
@pytest.mark.parametrize("model", ["logistic", "svm"])
def test_the_loss_falls_and_the_model_knows_its_labels(tmp_path: Path, model: str) -> None:
    provider, job_id, job = train(tmp_path, model, write_reviews(tmp_path / "rows", 200))
    assert (job.state, job.error, job.progress.percent) == (State.COMPLETED, None, 100.0)
    losses = [json.loads(line)["loss"] for line in provider.list_log(job_id)]
    assert losses[-1] < losses[0] / 2
    files = {file.name: b"".join(file.chunks) for file in provider.open_files(job_id, job.result)}
    report = json.loads(files["report.json"])
    assert (report["accuracy"], report["labels"], report["examples"]) == (1.0, ["bad", "good"], 200)
    trained = pickle.loads(files["model.pickle"])
    features = trained["vectorizer"].transform(["a lovely teapot", "it leaks"])
    assert list(trained["classifier"].predict(features)) == ["good", "bad"]


@pytest.mark.long
def test_rows_without_labels_end_it_with_a_sentence(tmp_path: Path) -> None:
    rows = tmp_path / "rows"
    rows.write_text('{"text": "a kettle"}\n')
    _, _, job = train(tmp_path, "logistic", rows)
    assert job.state is State.FAILED
    assert "Example 1 of" in (job.error or "")
