"""A stage about the climate."""

import json
import os
from urllib.parse import quote

from spindle import Columns, Page, Row, ServiceFailed, ServiceStage, register_stage


def read_mean(page: Page) -> float:
    try:
        return float(json.loads(page.body)["mean"])
    except (ValueError, KeyError):
        raise ServiceFailed("the climate service sent no temperature") from None


@register_stage("climate")
class Climate(ServiceStage):
    """Add the mean temperature of each place, from a climate service."""

    example = "pipeline: []"
    positional = ("column",)
    column: str

    def list_references(self) -> tuple[str, ...]:
        return (self.column,)

    def infer_columns(self, before: Columns) -> Columns:
        return before.with_columns((("mean", "double"),))

    def work(self, tools):
        address = os.environ.get("CLIMATE_URL", "https://climate.example.com")

        def add_mean(row: Row) -> list[Row]:
            place = quote(str(row.value(self.column)))
            try:
                mean = tools.services.ask(f"{address}/climate?place={place}", read_mean)
            except ServiceFailed as failed:
                return [row.with_values({"mean": None}).add_error(str(failed))]
            return [row.with_values({"mean": mean})]

        return add_mean
