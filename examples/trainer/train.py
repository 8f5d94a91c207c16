"""Train a text classifier: a trainer that Spindle can run.

    python train.py MODEL TRAIN VALIDATION OUTPUT

MODEL is `logistic` or `svm`; the files are JSON lines with a `text` and a `label`. Needs scikit-learn.
"""

from __future__ import annotations

import json
import pickle
import sys
from pathlib import Path

import numpy as np
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import hinge_loss, log_loss

LOSSES = {"logistic": "log_loss", "svm": "hinge"}
EPOCHS = 20


def read_examples(path: str) -> tuple[list[str], list[str]]:
    """Return texts and labels; end with a sentence for rows without them."""
    rows = [json.loads(line) for line in Path(path).read_text("utf-8").splitlines()]
    missing = next((number for number, row in enumerate(rows, 1) if not {"text", "label"} <= row.keys()), None)
    if missing is not None:
        sys.exit(f"Example {missing} of {path} has no text or no label.")
    return [str(row["text"]) for row in rows], [str(row["label"]) for row in rows]


def measure_loss(classifier: SGDClassifier, features: object, labels: list[str]) -> float:
    """Return the loss over the examples."""
    if classifier.loss == "log_loss":
        return float(log_loss(labels, classifier.predict_proba(features), labels=classifier.classes_))
    return float(hinge_loss(labels, classifier.decision_function(features), labels=classifier.classes_))


def main(model: str, train: str, validation: str, output: str) -> None:
    texts, labels = read_examples(train)
    classes = np.array(sorted(set(labels)))
    if len(classes) < 2:
        sys.exit(f"The examples have {len(classes)} labels. A classifier needs two.")
    vectorizer = HashingVectorizer(ngram_range=(1, 2), n_features=2**18)
    features = vectorizer.transform(texts)
    classifier = SGDClassifier(loss=LOSSES[model], random_state=0, learning_rate="constant", eta0=0.05)
    for step in range(1, EPOCHS + 1):
        classifier.partial_fit(features, labels, classes=classes)
        loss = measure_loss(classifier, features, labels)
        print(json.dumps({"step": step, "steps": EPOCHS, "loss": round(loss, 6)}), flush=True)
    held_out, expected = read_examples(validation) if validation else ([], [])
    report: dict[str, object] = {"model": model, "labels": classes.tolist(), "examples": len(texts)}
    if held_out:
        report["accuracy"] = float(classifier.score(vectorizer.transform(held_out), expected))
    Path(output, "report.json").write_text(json.dumps(report, indent=2))
    with Path(output, "model.pickle").open("wb") as file:
        pickle.dump({"vectorizer": vectorizer, "classifier": classifier}, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
