"""download: keep the files at the addresses in a column."""

from __future__ import annotations

from pydantic import Field

from pipelines.fetch.files import FILE_COLUMNS
from pipelines.language.columns import Columns
from pipelines.planning.stage import register_stage
from pipelines.stages.links import AddressStage, RequestStage

_MIB = 1024 * 1024


@register_stage("download")
class Download(RequestStage, AddressStage):
    """Download the file at the address in a column, or one row for each address of an array, and keep it.

    Adds the columns `_path`, `_type` (media type), `_bytes` and `_sha256`; they are null, with a sentence in `_error`,
    for a file that cannot be had or is larger than `maxBytes`. Equal files are kept once; all files of a run may have
    10 GiB. On a server `_path` is `files/` and the hash: GET …/executions/{id}/files/{sha256} returns the file. With
    `spindle run`, files are in a folder named after the output (`rows_files` for `-o rows.csv`) or the pipeline. The
    stages after a download read the file as their page. The request is described as in wget.
    """

    example = """
pipeline:
  - {stage: load_csv, args: ["${FOLDER}/products.csv"]}
  - {stage: download, args: [$page, {maxBytes: 5000000}]}
"""

    max_bytes: int = Field(default=32 * _MIB, alias="maxBytes", ge=1, le=512 * _MIB, description="size limit of a file")

    @property
    def file_limit(self) -> int:
        return self.max_bytes

    def infer_columns(self, before: Columns) -> Columns:
        return before.with_columns(FILE_COLUMNS)
