"""Clusters of rows with similar numbers."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from pipelines.errors import RunError
from tests.support.pipelines import Rows, Run, find_problem, load_table

CENTERS = ((10.0, 1.0), (50.0, 900.0), (90.0, 100.0))


def make_table() -> tuple[str, list[int]]:
    """Return a table of 60 points around three centers, with the number of the center of each."""
    chosen = random.Random(3)
    numbers = [chosen.randrange(3) for _ in range(60)]
    lines = (
        f"p{at},{CENTERS[n][0] + chosen.gauss(0, 1):.3f},{CENTERS[n][1] + chosen.gauss(0, 10):.3f}"
        for at, n in enumerate(numbers)
    )
    return "\n".join(("name,price,weight", *lines)), numbers


@pytest.mark.long
@pytest.mark.parametrize(
    "arguments",
    [
        "algorithm: kmeans, k: 3, seed: 7, features: [price, weight]",
        "algorithm: gmm, k: 3, features: [price, $weight]",
        "algorithm: dbscan, epsilon: 0.5, minPoints: 4, features: [price, weight]",
    ],
)
def test_clusters_are_numbered_by_their_centers(run: Run, tmp_path: Path, arguments: str) -> None:
    table, numbers = make_table()
    rows = run(load_table(tmp_path, table + "\nempty,,5\n", f"- {{stage: propertyCluster, args: [{{{arguments}}}]}}"))
    assert [row["cluster_id"] for row in rows] == [*numbers, -1]
    assert [row["name"] for row in rows] == [*(f"p{at}" for at in range(60)), "empty"]
    assert [*rows[0]] == ["name", "price", "weight", "cluster_id"]


def test_rows_far_from_others_are_noise(run: Run, tmp_path: Path) -> None:
    table = "x\n" + "\n".join(["1.0", "1.1", "1.2", "40", "1.3", "-60"])
    text = load_table(tmp_path, table, "- {stage: propertyClusterML, args: [{algorithm: dbscan, features: [x]}]}")
    assert get_clusters(run(text.replace("dbscan,", "dbscan, minPoints: 3, epsilon: 0.2,"))) == [0, 0, 0, -1, 0, -1]


@pytest.mark.parametrize("algorithm", ["kmeans, k: 2", "dbscan"])
def test_rows_without_numbers_are_in_no_cluster(run: Run, tmp_path: Path, algorithm: str) -> None:
    stages = (
        f"- {{stage: sql_query, args: ['SELECT name, CAST(NULL AS DOUBLE) AS price FROM rows']}}\n"
        f"- {{stage: propertyCluster, args: [{{algorithm: {algorithm}, features: [price]}}]}}"
    )
    assert get_clusters(run(load_table(tmp_path, "name\na\nb\n", stages))) == [-1, -1]


def test_the_number_of_clusters_is_required() -> None:
    problem = find_problem(
        "pipeline:\n- {stage: load_csv, args: [a.csv]}\n- {stage: propertyCluster, args: [{features: [x]}]}"
    )
    assert (problem.code, problem.line) == ("missing-argument", 3)


def test_a_text_is_no_feature(run: Run, tmp_path: Path) -> None:
    text = load_table(tmp_path, "name\na\n", "- {stage: propertyCluster, args: [{k: 2, features: [name]}]}")
    with pytest.raises(RunError, match="no column of numbers"):
        run(text)


def get_clusters(rows: Rows) -> list[int]:
    return [row["cluster_id"] for row in rows]
