"""`spindle eval`: how well a language model, or pages' own metadata, serve prompts on labelled pages."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from cli.terminal import OWN_NETWORKS
from pipelines.errors import RunError
from pipelines.inference.evaluation import Evaluation, evaluate, read_labelled_pages
from pipelines.inference.store import read_lock_file
from pipelines.models.budget import Budget
from pipelines.models.client import ModelClient
from pipelines.models.model_choice import choose_model


def evaluate_file(
    file: Path, provider: str | None, name: str | None, max_calls: int | None, selectors: Path | None = None
) -> int:
    """Print precision, recall and F1 of every field, and what the calls have cost; return 1 for an invalid file."""
    try:
        pages = read_labelled_pages(file)
        proven = read_lock_file(selectors) if selectors else ()
        model = choose_model(os.environ, provider, name, OWN_NETWORKS)
    except (ValueError, RunError) as error:
        print(f"{file} cannot be evaluated: {error}", file=sys.stderr)
        return 1
    client = ModelClient(model, (Budget("the evaluation", max_calls),)) if model else None
    _print_evaluation(evaluate(pages, client, proven), client, bool(proven))
    return 0


def _print_evaluation(found: Evaluation, client: ModelClient | None, has_selectors: bool) -> None:
    table = Table("field", "precision", "recall", "F1", "right", "wrong", "missed", box=None)
    for name, score in found.scores.items():
        ratios = (f"{each:.3f}" for each in (score.precision, score.recall, score.f1))
        table.add_row(name, *ratios, str(score.right), str(score.wrong), str(score.missed))
    console = Console(width=100)
    console.print(table)
    templates = "1 template" if found.templates == 1 else f"{found.templates:,} templates"
    print(f"\n{found.pages:,} pages of {templates}")
    if client is None:
        means = (
            "the selectors of the file and the pages themselves give"
            if has_selectors
            else "the pages say of themselves"
        )
        print(f"no model: this is what {means}; set OPENAI_BASE_URL or a provider's key for one")
    else:
        usage = client.usage
        print(
            f"{client.model.provider} {client.model.name}: {usage.calls:,} calls, {usage.tokens_in:,} tokens read, "
            f"{usage.tokens_out:,} written, at most ${usage.cost:.4f}"
        )
    for error, count in found.errors.items():
        print(f"{count:,} pages: {error}")
