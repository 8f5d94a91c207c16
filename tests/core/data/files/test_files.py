"""Uploaded files: what is detected, and what is refused with which code."""

from __future__ import annotations

import gzip
import io
import json
import re
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from core.data.files.messages import ConversionRequest, ConvertedFile, RejectedFile
from core.data.files.upload_conversion import convert_file
from tests.support.json_types import JSON_TYPES


def convert_bytes(folder: Path, content: bytes) -> ConvertedFile:
    (folder / "upload").write_bytes(content)
    return convert_file(ConversionRequest(str(folder / "upload"), str(folder), 2**30))


def to_parquet(table: pa.Table) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        (b"\xef\xbb\xbfname,n\r\nx,1\r\n", [{"name": "x", "n": 1}]),
        ("näme\tn\nx\t1\n".encode("utf-16"), [{"näme": "x", "n": 1}]),
        ("name,n\nx,1\n".encode("utf-16-be"), [{"name": "x", "n": 1}]),
        (gzip.compress(b"name,n\nx,1\n", mtime=0), [{"name": "x", "n": 1}]),
        (b'{"a": 1, "b": {"c": [1, 2]}}\n\n{"a": 2.5}\n', [{"a": 1, "b": {"c": [1, 2]}}, {"a": 2.5, "b": None}]),
        (b'\xef\xbb\xbf[{"a": "007"}, {"a": "x"}]', [{"a": "007"}, {"a": "x"}]),
        (b"1,x\n2,y\n", [{"_c0": 1, "_c1": "x"}, {"_c0": 2, "_c1": "y"}]),
        (b'a,b\n"",\n', [{"a": "", "b": None}]),
        (b",a\n0,x\n", [{"_c0": 0, "a": "x"}]),
        (b"when\n2026-01-02T03:04:05+01:00\n", [{"when": "2026-01-02T02:04:05Z"}]),
        (b"id\n12345678901234567890\n", [{"id": "12345678901234567890"}]),
        (b"only,header\n", []),
    ],
)
def test_encodings_compressions_and_formats_are_detected(tmp_path: Path, content: bytes, rows: Any) -> None:
    converted = convert_bytes(tmp_path, content)
    assert (json.loads(converted.preview), converted.row_count) == (rows, len(rows))
    assert pq.read_metadata(tmp_path / "rows.parquet").num_rows == len(rows)


def make_zip(*names: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            archive.writestr(name, "a,b\n1,2\n")
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("content", "delimiter"),
    [
        (b"a;b\n1,5;x\n2,5;y\n", ";"),
        (b"a\tb\nx, y\tz; w\nq, r\ts; t\n", "\t"),
        (b"name|text\nx|a, b, c\ny|d, e; f\n", "|"),
        (b'a;b\n"x;\ny,";1\n"z";2\n', ";"),
        (b'text\n"hello; world"\nfoo\n', ","),
    ],
)
def test_the_delimiter_splits_the_records_evenly(tmp_path: Path, content: bytes, delimiter: str) -> None:
    converted = convert_bytes(tmp_path, content)
    assert (converted.detected.delimiter, converted.row_count) == (delimiter, 2)


def test_a_row_of_dates_is_no_header(tmp_path: Path) -> None:
    converted = convert_bytes(tmp_path, b"2026-01-01,2026-01-02\nx,y\n")
    assert (converted.detected.header, converted.row_count) == (False, 2)


def test_numbers_that_a_number_would_change_stay_text(tmp_path: Path) -> None:
    rows = b"zip,article,plus,time,padded\n01067,1234567890123456789,+49,10:30, 1\n10115,1,+49,11:30,2\n"
    assert {column["type"] for column in convert_bytes(tmp_path, rows).columns} == {"string"}


def to_intervals(query: str) -> bytes:
    with TemporaryDirectory() as folder, duckdb.connect() as connection:
        connection.execute(f"COPY ({query}) TO '{folder}/i.parquet'")
        return Path(folder, "i.parquet").read_bytes()


PARQUET = to_parquet(pa.table({"a": list(range(1000))}))
REFUSED = {
    "an empty file": (b"", "empty-file"),
    "white space": (b"\n \n", "empty-file"),
    "a row with more values": (b"a,b\n1,2\n1,2,3\n", "invalid-file"),
    "a row with fewer values": (b"a,b\n1,2\n1\n", "invalid-file"),
    "a quote that is not closed": (b'a,b\n1,"x\n2,3\n', "invalid-file"),
    "equal names": (b"a,b,a\n1,2,3\n", "duplicate-column"),
    "names that differ in case": (b"Name,name\nx,y\n", "duplicate-column"),
    "a name with a control character": (b'"a\x01",b\n1,2\n', "invalid-header"),
    "latin-1": ("name,v\ncafé,1\n".encode("latin-1"), "invalid-encoding"),
    "binary": (b"\0" * 5000, "unsupported-format"),
    "an image": (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1", "unsupported-format"),
    "a spreadsheet": (make_zip("[Content_Types].xml", "xl/a.xml"), "unsupported-format"),
    "two files in a ZIP": (make_zip("a.csv", "b.csv"), "unsupported-format"),
    "broken JSON": (b'{"a": 1}\n{"a": \n', "invalid-file"),
    "JSON that is not objects": (b"[1, 2]", "invalid-file"),
    "half an array of JSON": (b'[{"a": 1},\n{"a": 2}, \n', "truncated-upload"),
    "half a gzip file": (gzip.compress(b"a,b\n1,2\n" * 1000)[:-9], "truncated-upload"),
    "half a Parquet file": (PARQUET[: len(PARQUET) // 2], "invalid-file"),
    "a damaged Parquet file": (PARQUET[:40] + b"\xff" * 400 + PARQUET[440:], "invalid-file"),
    "a Parquet file with equal names": (
        to_parquet(pa.table([pa.array([1]), pa.array([2])], names=["a", "A"])),
        "duplicate-column",
    ),
    "a Parquet file with equal fields": (to_parquet(pa.table({"a": [[{"b": 1, "B": 2}]]})), "duplicate-column"),
    "a Parquet file with intervals": (to_intervals("SELECT INTERVAL 2 MONTH AS i"), "unsupported-format"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_file_that_cannot_be_read_whole_is_refused(tmp_path: Path, case: str) -> None:
    content, code = REFUSED[case]
    with pytest.raises(RejectedFile) as refused:
        convert_bytes(tmp_path, content)
    assert refused.value.code == code, refused.value
    assert str(tmp_path) not in str(refused.value)


def test_the_line_of_a_wrong_row_is_named(tmp_path: Path) -> None:
    with pytest.raises(RejectedFile, match="line 30002"):
        convert_bytes(tmp_path, b"a,b\n" + b"1,2\n" * 30_000 + b"1,2,3\n" + b"1,2\n" * 10)


def test_types_are_those_of_all_rows(tmp_path: Path) -> None:
    rows = b"n,m,d\n" + b"1,1,2026-01-01\n" * 30_000
    late = convert_bytes(tmp_path, rows + b"1.5,x,2026-13-01\n")
    assert [column["type"] for column in late.columns] == ["double", "string", "string"]
    assert late.row_count == 30_001


def test_empty_cells_do_not_make_a_column_text(tmp_path: Path) -> None:
    rows = b"day,at,zone,flag,n\n,,,,\n2026-01-01,2026-01-01 10:00,2026-01-01T10:00:00Z,True,1\n"
    columns = convert_bytes(tmp_path, rows).columns
    assert [column["type"] for column in columns] == ["date", "timestamp_ntz", "timestamp", "boolean", "bigint"]


@pytest.mark.parametrize("case", JSON_TYPES)
def test_json_has_the_types_that_its_values_show(tmp_path: Path, case: str) -> None:
    texts, type_, values = JSON_TYPES[case]
    converted = convert_bytes(tmp_path, "".join(f'{{"a": {text}}}\n' for text in texts).encode())
    assert converted.columns[0]["type"] == type_
    assert pq.read_table(tmp_path / "rows.parquet")["a"].to_pylist() == values


def test_fields_that_differ_in_case_are_not_renamed(tmp_path: Path) -> None:
    with pytest.raises(RejectedFile, match="Two columns are called 'ID'"):
        convert_bytes(tmp_path, b'{"id": 1, "ID": 2}')
    (tmp_path / "upload").unlink()
    converted = convert_bytes(tmp_path, b'{"a": {"id": 1, "ID": 2}}')
    assert json.loads(converted.preview) == [{"a": '{"id": 1, "ID": 2}'}]


@pytest.mark.parametrize(
    ("texts", "type_"),
    [
        (("12E3", "13E4"), "string"),
        (("1.10", "1.9"), "string"),
        (("1.10", "80"), "decimal(38,2)"),
        (("1234567890123456789.5",), "decimal(38,1)"),
        (("0.1234567890123456789",), "decimal(38,19)"),
        (("123456789012345678", "0.5"), "decimal(38,1)"),
        (("0.30000000000000004", "2"), "double"),
        (("1e-07", "2.0"), "double"),
        (("1.0E10", "NaN", "-Infinity"), "double"),
        (("2026-01-02 24:00:00",), "string"),
        (("2026-01-02 03:04:05.1234567",), "string"),
        (("2026-01-02T03:04:05.123456000Z",), "timestamp"),
        (("2026-01-02 03:04", "2026-01-02T03:04:05Z"), "string"),
    ],
)
def test_a_text_has_a_type_only_if_nothing_is_lost(tmp_path: Path, texts: tuple[str, ...], type_: str) -> None:
    rows = "article\n" + "".join(f"{text}\n" for text in texts)
    converted = convert_bytes(tmp_path, rows.encode())
    assert converted.columns[0]["type"] == type_
    if type_ == "string":
        assert [row["article"] for row in json.loads(converted.preview)] == [*texts]


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        (b"\na,b\n1,2\n", [{"a": 1, "b": 2}]),
        (b"\r\n \r\na,b\r\n1,2\r\n", [{"a": 1, "b": 2}]),
        (b'a,b\n1,"x\r\ny"\r\n2,z\n', [{"a": 1, "b": "x\r\ny"}, {"a": 2, "b": "z"}]),
        (b"a,b\r1,2\r\n3,4\n", [{"a": 1, "b": 2}, {"a": 3, "b": 4}]),
        (b"a\r\n1\n\n2\r\n", [{"a": 1}, {"a": None}, {"a": 2}]),
    ],
)
def test_blank_lines_and_line_ends_change_no_row(tmp_path: Path, content: bytes, rows: Any) -> None:
    assert json.loads(convert_bytes(tmp_path, content).preview) == rows


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"[]", "The file has no rows."),
        (b'a,b\n1,2\n3,"x"y\n', "The row in line 3 has text behind a closing quote."),
        (b'a,b\r\n1,"\r\n"\n3,"x\n4,5\n', "The row in line 4 has a quote that is not closed."),
        (b'{"a": 1}\n[2]\n', "Row 2 of the JSON cannot be read: it is not an object."),
        (b'{"a": 1}\n\n{"a": "\\ud800"}\n', "JSON in line 3 cannot be read: no low surrogate in string."),
        (b'[{"a": 1}, {"a": "\\ud800"}]', "JSON in row 2 cannot be read: no low surrogate in string."),
        (b'{"a": 1}\n{"a": 2\n', "JSON in line 2 cannot be read: unexpected end of data."),
        (b'{"a": ' + b"[" * 200 + b"]" * 200 + b"}", "nested too deep"),
    ],
)
def test_a_refusal_has_a_reason(tmp_path: Path, content: bytes, sentence: str) -> None:
    with pytest.raises(RejectedFile, match=re.escape(sentence)):
        convert_bytes(tmp_path, content)


DAYS = [-62135596800000000, None, 253402300799000000]  # of the years 1 and 9999, in microseconds


def test_times_of_parquet_keep_their_year(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    pq.write_table(pa.table({"t": pa.array(DAYS, pa.timestamp("us"))}), buffer, use_deprecated_int96_timestamps=True)
    converted = convert_bytes(tmp_path, buffer.getvalue())
    assert [row["t"] for row in json.loads(converted.preview)] == ["0001-01-01T00:00:00", None, "9999-12-31T23:59:59"]


@pytest.mark.parametrize(
    "values",
    [
        pa.array([2**62], pa.timestamp("ms")),
        pa.array([253402300800], pa.timestamp("s")),
        pa.array([10**7], pa.date32()),
        pa.array([None, 2**62], pa.timestamp("us", "UTC")),
    ],
)
def test_times_that_nothing_shows_are_refused(tmp_path: Path, values: pa.Array) -> None:
    with pytest.raises(RejectedFile, match="'t' has times outside of the years 1 to 9999"):
        convert_bytes(tmp_path, to_parquet(pa.table({"t": values})))


def test_nanoseconds_that_are_cut_are_told(tmp_path: Path) -> None:
    cut = convert_bytes(tmp_path, to_parquet(pa.table({"t": pa.array([1_000_001], pa.timestamp("ns"))})))
    assert cut.warnings == ["The column 't' has times with nanoseconds; they are cut to microseconds."]
    (tmp_path / "upload").unlink()
    assert not convert_bytes(tmp_path, to_parquet(pa.table({"t": pa.array([1_000_000], pa.timestamp("ns"))}))).warnings


def test_durations_of_parquet_are_text_with_their_unit(tmp_path: Path) -> None:
    seconds = pa.array([1, None, -86_400_000], pa.duration("ms"))
    rows = pa.StructArray.from_arrays([seconds], names=["d"])
    converted = convert_bytes(tmp_path, to_parquet(pa.table({"d": seconds, "s": rows})))
    assert [row["d"] for row in json.loads(converted.preview)] == ["PT0.001S", None, "PT-86400S"]
    assert json.loads(converted.preview)[0]["s"] == {"d": "PT0.001S"}


@pytest.mark.parametrize("store_schema", [True, False])
def test_uuids_of_parquet_are_text_at_any_depth(tmp_path: Path, store_schema: bool) -> None:
    ids = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0123456789abcdef", None], pa.binary(16)))
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2]), ids)
    rows = pa.StructArray.from_arrays([ids, pa.array([1, 2])], names=["u", "n"])
    buffer = io.BytesIO()
    pq.write_table(pa.table({"u": ids, "l": lists, "s": rows}), buffer, store_schema=store_schema)
    first = json.loads(convert_bytes(tmp_path, buffer.getvalue()).preview)[0]
    text = "30313233-3435-3637-3839-616263646566"
    assert first == {"u": text, "l": [text], "s": {"u": text, "n": 1}}
