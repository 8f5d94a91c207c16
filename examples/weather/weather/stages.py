"""Stages about the weather."""

from spindle import Columns, Row, RowStage, register_stage


@register_stage("beaufort", "windForce")
class Beaufort(RowStage):
    """Add the wind force to each row."""

    example = "pipeline: []"
    positional = ("column",)
    column: str

    def list_references(self) -> tuple[str, ...]:
        return (self.column,)

    def infer_columns(self, before: Columns) -> Columns:
        return before.with_columns((("force", "int"),))

    def work(self, tools):
        def add_force(row: Row) -> list[Row]:
            speed = float(row.value(self.column))
            return [row.with_values({"force": round((speed / 0.836) ** (2 / 3))})]

        return add_force
