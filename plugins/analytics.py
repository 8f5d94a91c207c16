"""propertyCluster: groups of rows with similar numbers, by k-means, mixtures or DBSCAN."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from pipelines.errors import ArgumentError, RunError
from pipelines.language.columns import Columns, quote_column
from pipelines.language.parameters import parse_column_reference
from pipelines.planning.stage import TableStage, register_stage
from pipelines.plugin import Plugin

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from pipelines.contract.context import RunContext

plugin = Plugin(description="Group rows with similar numbers.", modules=(__name__,))

CLUSTER = "cluster_id"
_NOISE = -1
_MOST_DBSCAN_ROWS = 10_000  # all of which may be neighbours: 0.8 GB
_NUMERIC = frozenset(("tinyint", "smallint", "int", "bigint", "float", "double"))
_VECTOR, _SCALED, _PREDICTION, _PROBABILITY = "_features", "_scaled", "_prediction", "_probability"


@register_stage("propertyCluster", "propertyClusterML")
class PropertyCluster(TableStage):
    """Add `cluster_id`, the number of the group of rows whose numbers are similar to the row's.

    It is an int from 0 on, in the order of the clusters' centers by the first feature, then by the next; -1 marks rows
    that are in no cluster, and those that lack a number in a feature. All features count the same, since it
    is divided by its standard deviation. `kmeans` and `gmm` (a mixture of normal distributions) make `k` clusters;
    `dbscan` joins rows that have `minPoints` rows within `epsilon` standard deviations, of up to 10,000 rows.
    """

    example = """
fetch: {url: "${SHOP}/"}
pipeline:
  - {stage: wgetJoin, args: ["li.product a", Inner]}
  - {stage: extract, args: [{selector: h1, as: title}, {selector: .price, method: price}]}
  - {stage: propertyCluster, args: [{algorithm: kmeans, k: 2, features: [price]}]}
"""

    keeps_rows = True
    algorithm: Literal["kmeans", "gmm", "dbscan"] = "kmeans"
    k: PositiveInt | None = Field(None, le=1000, description="number of clusters, for kmeans and gmm")
    features: tuple[str, ...] = Field(min_length=1, description="columns of numbers, or of texts that are numbers")
    epsilon: PositiveFloat = Field(0.5, description="largest distance of neighbours, for dbscan")
    min_points: PositiveInt = Field(5, alias="minPoints", description="neighbours that make a cluster, for dbscan")
    seed: int = Field(0, description="equal rows and seeds give equal clusters")

    @model_validator(mode="after")
    def _check_k(self) -> Self:
        if self.algorithm != "dbscan" and self.k is None:
            raise ArgumentError(f"{self.algorithm} needs the number of clusters as k", "missing-argument")
        return self

    def describe(self) -> str:
        return f"{self.algorithm} of {', '.join(self.list_references())}"

    def list_references(self) -> tuple[str, ...]:
        return tuple(parse_column_reference(name) or name for name in self.features)

    def infer_columns(self, before: Columns) -> Columns:
        return before.with_columns(((CLUSTER, "int"),))

    def apply(self, rows: DataFrame, context: RunContext) -> DataFrame:
        from pyspark.sql import functions as F

        rows = rows.persist()
        numbers = [_read_number(name, rows) for name in self.list_references()]
        is_whole = F.lit(True)
        for number in numbers:
            is_whole = is_whole & number.isNotNull()
        if self.algorithm == "dbscan":
            return self._find_dense(rows, numbers, is_whole)
        return self._find_centers(rows, numbers, is_whole)

    def _find_centers(self, rows: DataFrame, numbers: Sequence[Column], is_whole: Column) -> DataFrame:
        """Add the clusters of k-means or of a mixture, which Spark computes."""
        from pyspark.ml.clustering import GaussianMixture, KMeans
        from pyspark.ml.feature import StandardScaler
        from pyspark.ml.functions import array_to_vector
        from pyspark.sql import functions as F

        vector = array_to_vector(F.array(*(F.coalesce(number, F.lit(0.0)) for number in numbers)))
        rows = rows.withColumn(_VECTOR, vector)
        whole = rows.where(is_whole)
        if whole.isEmpty():
            return rows.drop(_VECTOR).withColumn(CLUSTER, F.lit(_NOISE))
        scaler = StandardScaler(withMean=True, withStd=True, inputCol=_VECTOR, outputCol=_SCALED).fit(whole)
        named: dict[str, Any] = {"featuresCol": _SCALED, "predictionCol": _PREDICTION, "k": self.k, "seed": self.seed}
        if self.algorithm == "kmeans":
            kmeans = KMeans(**named).fit(scaler.transform(whole))
            model, centers = kmeans, [center.tolist() for center in kmeans.clusterCenters()]
        else:
            mixture = GaussianMixture(probabilityCol=_PROBABILITY, **named).fit(scaler.transform(whole))
            model, centers = mixture, [each.mean.toArray().tolist() for each in mixture.gaussians]
        order = sorted(range(len(centers)), key=centers.__getitem__)
        numbered = F.array(*(F.lit(order.index(at)) for at in range(len(centers))))
        cluster = F.when(is_whole, F.get(numbered, F.col(_PREDICTION))).otherwise(_NOISE)
        return (
            model.transform(scaler.transform(rows))
            .withColumn(CLUSTER, cluster)
            .drop(_VECTOR, _SCALED, _PREDICTION, _PROBABILITY)
        )

    def _find_dense(self, rows: DataFrame, numbers: Sequence[Column], is_whole: Column) -> DataFrame:
        """Add the clusters of DBSCAN, which one process computes."""
        import numpy as np
        from pyspark.sql import functions as F
        from sklearn.cluster import DBSCAN
        from sklearn.preprocessing import StandardScaler

        points = rows.where(is_whole).select("_ordinal", *(number.alias(f"f{at}") for at, number in enumerate(numbers)))
        table = points.limit(_MOST_DBSCAN_ROWS + 1).orderBy("_ordinal").toArrow()
        if table.num_rows > _MOST_DBSCAN_ROWS:
            raise RunError(f"dbscan takes up to {_MOST_DBSCAN_ROWS:,} rows, and there are more: use kmeans or gmm")
        if not table.num_rows:
            return rows.withColumn(CLUSTER, F.lit(_NOISE))
        values = np.column_stack([table.column(f"f{at}").to_numpy() for at in range(len(numbers))])
        found = DBSCAN(eps=self.epsilon, min_samples=self.min_points).fit_predict(
            StandardScaler().fit_transform(values)
        )
        labels = rows.sparkSession.createDataFrame(
            table.select(["_ordinal"]).append_column(CLUSTER, [_number_clusters(values, found)])
        )
        joined = rows.join(labels.withColumnRenamed("_ordinal", _VECTOR), F.col("_ordinal") == F.col(_VECTOR), "left")
        return joined.withColumn(CLUSTER, F.coalesce(F.col(CLUSTER), F.lit(_NOISE))).drop(_VECTOR)


def _read_number(name: str, rows: DataFrame) -> Column:
    """Return a feature as a number, null for NaN and other texts; raise RunError if no text is a number."""
    from pyspark.sql import functions as F

    type_ = dict(rows.dtypes).get(name, "")
    if type_ not in _NUMERIC and type_ != "string" and not type_.startswith("decimal"):
        raise RunError(f"the feature '{name}' is no column of numbers: it has the type {type_}")
    number = F.nanvl(F.col(quote_column(name)).try_cast("double"), F.lit(None))
    if type_ == "string" and not rows.isEmpty() and rows.where(number.isNotNull()).isEmpty():
        raise RunError(f"the feature '{name}' is no column of numbers: none of its texts is a number")
    return number


def _number_clusters(values: Any, labels: Any) -> Any:
    """Return labels in the order of the clusters' centers as an Arrow array."""
    import numpy as np
    import pyarrow as pa

    names = [label for label in np.unique(labels) if label != _NOISE]
    order = sorted(names, key=lambda label: values[labels == label].mean(axis=0).tolist())
    numbers = {label: at for at, label in enumerate(order)} | {_NOISE: _NOISE}
    return pa.array([numbers[label] for label in labels], pa.int32())
