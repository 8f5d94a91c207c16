"""Packages as bytes: nothing that is not a whole and honest package gets in."""

from __future__ import annotations

import hashlib
import io
import json
import stat
import struct
import warnings
import zipfile
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from core.errors import BadInput, SpindleError, TooLarge
from core.integrations.declarations.models import Declaration
from core.integrations.packages import archive
from core.integrations.packages.archive import DECLARATION, EPOCH, MANIFEST, pack, unpack
from tests.support.cases import each_case


def read(package: bytes) -> Declaration:
    return unpack(io.BytesIO(package))


def zipped(files: Mapping[str, bytes], change: Callable[[zipfile.ZipInfo], None] = lambda _: None) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as package, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that are there twice
        for name, content in files.items():
            entry = zipfile.ZipInfo(name.removesuffix("#"), EPOCH)
            change(entry)
            package.writestr(entry, content, entry.compress_type)
    return buffer.getvalue()


def files(**changed: Any) -> dict[str, bytes]:
    """The files of an empty package with some of its sections changed, and a manifest that fits them."""
    declaration = json.dumps({"categories": [], "agents": [], "projects": [], **changed}).encode()
    return {MANIFEST: manifest(declaration), DECLARATION: declaration}


def manifest(declaration: bytes, **fields: Any) -> bytes:
    digest = hashlib.sha256(declaration).hexdigest()
    return json.dumps({"format": "spindle-package", "formatVersion": 1, "sha256": digest, **fields}).encode()


GOOD = zipped(files())
PROJECT = {"name": "p", "description": None, "cronSchedule": None, "parameters": {}, "enabled": True, "jobs": []}
AGENT = {"name": "a", "enabled": True}
CATEGORY = {"name": "c", "visibility": "PUBLIC", "enabled": True}
EXTENSIONS = [{"name": name, "function": "x"} for name in ("tidyUp", "tidy_up")]


def deflated(entry: zipfile.ZipInfo) -> None:
    entry.compress_type = zipfile.ZIP_DEFLATED


def mode(bits: int) -> Callable[[zipfile.ZipInfo], None]:
    def change(entry: zipfile.ZipInfo) -> None:
        entry.create_system, entry.external_attr = 3, bits << 16

    return change


def patched(at: int, value: bytes, signature: bytes, content: bytes = GOOD) -> bytes:
    """`value` at this offset of the first record with the signature."""
    start = content.index(signature) + at
    return content[:start] + value + content[start + len(value) :]


def lying(field_at: int, value: int) -> bytes:
    """The first entry's size in the central directory is not that of its content."""
    return patched(field_at, struct.pack("<L", value), b"PK\1\2")


def deep(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"a": value}
    return value


NAMES = [
    "../manifest.json",
    "../../../etc/passwd",
    "/etc/passwd",
    "C:\\windows\\x",
    "..\\..\\x",
    "declaration/../../x",
    "declaration.json/",
    "./declaration.json",
    "Declaration.json",
    "declaration.json\0.exe",
    "declaration.json ",
    "\u202enosj.noitaralced",
    "a" * 5000,
    "__MACOSX/x",
    ".git/config",
    "con",
    "//host/share",
    "file:///etc/passwd",
    "decla\nration.json",
    "declaration.json:stream",
]
MODES = [stat.S_IFLNK, stat.S_IFDIR, stat.S_IFIFO, stat.S_IFSOCK, stat.S_IFCHR, stat.S_IFBLK, stat.S_IFLNK | 0o777]
VERSIONS: list[Any] = [0, -1, "1", None, True, 1.5, [], {}]
PARTS: list[tuple[str, Any]] = [
    ("projects", {}),
    ("projects", [1]),
    ("projects", [{}]),
    ("projects", [{**PROJECT, "id": "x"}]),
    ("projects", [{**PROJECT, "enabled": "yes"}]),
    ("projects", [{**PROJECT, "name": 7}]),
    ("projects", [{**PROJECT, "parameters": []}]),
    ("projects", [{**PROJECT, "jobs": [{}]}]),
    ("projects", [{**PROJECT, "organizationId": "01990000-0000-7000-8000-000000000000"}]),
    ("agents", "x" * 100),
    ("agents", [{**AGENT, "pipeline": 1}]),
    ("agents", [{**AGENT, "apiKey": "x"}]),
    ("categories", [[]]),
    ("plugins", []),
]
BAD: dict[str, bytes] = {
    **{f"name {name[:20]!r}": zipped({**files(), name: b"x"}) for name in NAMES},
    **{f"mode {bits:o}": zipped(files(), mode(bits)) for bits in MODES},
    **{
        f"version {version!r}": zipped({**files(), MANIFEST: manifest(b"", formatVersion=version)})
        for version in VERSIONS
    },
    **{f"{part} {value!r:.40}": zipped(files(**{part: value})) for part, value in PARTS},
    **{f"without {name}": zipped({k: v for k, v in files().items() if k != name}) for name in (MANIFEST, DECLARATION)},
    **{f"twice {name}": zipped({**files(), f"{name}#": b"[]"}) for name in (MANIFEST, DECLARATION)},
    "empty": b"",
    "no zip": b"x" * 1000,
    "only an end": GOOD[GOOD.index(b"PK\5\6") :],
    "cut": GOOD[:-1],
    "cut in the middle": GOOD[: len(GOOD) // 2],
    "more behind": GOOD + b"x",
    "more before": b"#!/bin/sh\n" + GOOD,
    "a package in front": GOOD + GOOD,
    "a comment": zipped(files())[:-2] + b"\1\0x",
    "encrypted": patched(8, b"\1\0", b"PK\1\2"),
    "another compression": patched(10, b"\x63\0", b"PK\1\2"),
    "larger than told": lying(24, 1),
    "smaller than told": lying(24, 100_000),
    "compressed to more than there is": lying(20, 2**31),
    "a giant by its own word": lying(24, 2**32 - 2),
    "zip64 by its sizes": lying(24, 2**32 - 1),
    "zip64 by its place": lying(42, 2**32 - 1),
    "a wrong place": lying(42, 7),
    "a wrong crc": patched(16, b"\1\2\3\4", b"PK\1\2"),
    "a wrong name in the file": patched(30, b"Manifest", b"PK\3\4"),
    "zip64 end": GOOD[:-22] + struct.pack("<4sLQL", b"PK\6\7", 0, 0, 1) + GOOD[-22:],
    "zip64 end within the list": patched(12, struct.pack("<L", 99_999), b"PK\5\6"),
    "more files than there are": patched(8, b"\xff\xff\xff\xff", b"PK\5\6"),
    "another disk": patched(4, b"\1\0\1\0", b"PK\5\6"),
    "a wrong checksum": zipped({**files(), DECLARATION: b"{}"}),
    "no checksum": zipped({**files(), MANIFEST: b'{"format": "spindle-package", "formatVersion": 1}'}),
    "a checksum of no shape": zipped({**files(), MANIFEST: manifest(b"", sha256=[])}),
    "plugins of no shape": zipped({**files(), MANIFEST: manifest(files()[DECLARATION], plugins=[1])}),
    "plugins as text": zipped({**files(), MANIFEST: manifest(files()[DECLARATION], plugins="abc")}),
    "another format": zipped({**files(), MANIFEST: manifest(files()[DECLARATION], format="other")}),
    "a manifest that is a list": zipped({**files(), MANIFEST: b"[]"}),
    "a manifest that is no JSON": zipped({**files(), MANIFEST: b"{"}),
    "a manifest of nothing": zipped({**files(), MANIFEST: b""}),
    "a manifest that is no text": zipped({**files(), MANIFEST: b"\xff\xfe"}),
    "deep JSON": zipped({**files(), MANIFEST: b"[" * 100_000}),
    "a deep value": zipped(files(projects=[{**PROJECT, "parameters": deep(900)}])),
    "an agent of nobody": zipped(files(projects=[{**PROJECT, "jobs": [{"name": "j", "agent": {"name": "a"}}]}])),
}


def test_there_are_at_least_eighty_bad_packages() -> None:
    assert len(BAD) >= 80
    assert read(GOOD) == Declaration(categories=[], agents=[], projects=[])


@each_case("name", BAD)
def test_a_bad_package_is_refused(name: str) -> None:
    with pytest.raises(SpindleError) as refused:
        read(BAD[name])
    assert refused.value.status in (400, 413), refused.value
    assert refused.value.sentence.startswith("The package ")


@pytest.mark.long
def test_ten_thousand_agents_with_long_pipelines_go_through_a_package() -> None:
    text = "pipeline:\n" + "  - {stage: extract, args: [{selector: h1, method: text, as: title}]}\n" * 100
    agents = [{"name": f"agent {n}", "pipeline": text, "enabled": True} for n in range(10_000)]
    declaration = Declaration.model_validate({"categories": [], "agents": agents, "projects": []})
    assert read(pack(declaration)) == declaration


@pytest.mark.parametrize("told", [True, False])
def test_a_bomb_is_refused_before_it_unpacks(told: bool) -> None:
    bomb = zipped({**files(), DECLARATION: bytes(archive.MAX_CONTENT + 1)}, deflated)
    assert len(bomb) < 2**20
    if not told:
        at = bomb.rindex(DECLARATION.encode()) - 46 + 24
        bomb = bomb[:at] + struct.pack("<L", 100) + bomb[at + 4 :]
    with pytest.raises(SpindleError) as refused:
        read(bomb)
    assert refused.value.status == (413 if told else 400)


@pytest.mark.parametrize("name", [MANIFEST, DECLARATION])
def test_a_compressed_bomb_of_values_is_refused_without_parsing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(archive, "_parse_json")
    with pytest.raises(TooLarge, match="values"):
        read(zipped({**files(), name: b"[" + b"[]," * 5_000_000 + b"[]]"}, deflated))


@pytest.mark.parametrize("string", [b'""', rb'\"\\"'], ids=["empty", "escaped"])
def test_a_compressed_bomb_of_strings_is_refused_without_parsing(string: bytes) -> None:
    with pytest.raises(TooLarge, match="values"):
        read(zipped({**files(), DECLARATION: b"[" + string * (2 * archive.MAX_VALUES + 1) + b"]"}, deflated))


def test_as_many_strings_as_the_values_may_have_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAX_VALUES", 10_000)
    parameters = {f"key {n}": 'a "text", with [marks] \\' for n in range(9_950)}
    projects = [{**PROJECT, "parameters": parameters}]
    assert (
        read(zipped(files(projects=projects))).projects == Declaration.model_validate({"projects": projects}).projects
    )
    parameters |= {f"more {n}": "" for n in range(100)}
    with pytest.raises(TooLarge, match="values"):
        read(zipped(files(projects=projects)))


TWICE = [
    ("projects", [PROJECT, PROJECT]),
    ("categories", [CATEGORY, CATEGORY]),
    ("agents", [{**AGENT, "category": "c"}] * 3),
    ("agents", [{**AGENT, "extensions": EXTENSIONS}]),
]


@pytest.mark.parametrize(("part", "value"), TWICE)
def test_names_are_unique_where_imports_match_by_name(part: str, value: Any) -> None:
    with pytest.raises(BadInput) as refused:
        read(zipped(files(**{part: value})))
    detail = refused.value.details[0]
    assert (detail.path, detail.code) == (part, "duplicate-name")


def test_jobs_and_agents_without_category_may_share_a_name() -> None:
    job = {"name": "j", "parameters": {}, "enabled": True}
    declaration = read(zipped(files(agents=[AGENT, AGENT], projects=[{**PROJECT, "jobs": [job, job]}])))
    assert declaration.agent_names == ["a", "a#2"]


def test_thousands_of_files_are_refused_unread() -> None:
    with pytest.raises(BadInput):
        read(zipped({f"f{n}": b"" for n in range(2_000)}))
    with pytest.raises(TooLarge):
        read(bytes(archive.MAX_PACKAGE + 1))


def test_a_newer_format_is_refused_with_a_sentence() -> None:
    newer = zipped({**files(), MANIFEST: manifest(b"", formatVersion=2, anything="else")})
    with pytest.raises(BadInput) as refused:
        read(newer)
    assert refused.value.details[0].code == "unsupported-version"
