"""The plugin of docs/plugins.md, built as a wheel and installed into a folder, and plugins that fail to load."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest

from tests.support.site import Site

ROOT = Path(__file__).parents[2]

EXAMPLE = ROOT / "examples" / "weather"
WEATHER = {str(path.relative_to(EXAMPLE)): path.read_text() for path in EXAMPLE.rglob("weather/**/*") if path.is_file()}


FIRST_PARTY = ("analytics", "ean-image-sourcing", "countries", "matching", "prices", "search", "sentiment")
BROKEN = {
    "broken_plugin.py": "import a_library_that_is_not_there\n",
    "broken_ends.py": "raise SystemExit('no license')\n",
    "broken_calm.py": '''
        from spindle import Plugin, RowStage, register_stage

        plugin = Plugin()


        @register_stage("calm")
        class Calm(RowStage):
            """Of the same package, and whole."""
    ''',
}
BROKEN_ENTRIES = "broken = broken_plugin:plugin\nends = broken_ends:plugin\nwhole = broken_calm:plugin\n"
CLASHING = {
    "clashing.py": '''
        from spindle import Plugin, RowStage, register_stage

        plugin = Plugin(credentials={"GUSTS": {}})


        @register_stage("gusts")
        class Gusts(RowStage):
            """Its own."""


        @register_stage("wget_join")
        class Mine(RowStage):
            """Another's name."""
    ''',
}


def install(folder: Path, name: str, files: dict[str, str], entries: str) -> None:
    """Builds a wheel and installs it to the folder, as `pip install --target` does: a wheel is a zip to unpack."""
    wheel = folder.parent / f"{name}-1.0-py3-none-any.whl"
    about = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, textwrap.dedent(text))
        archive.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(
            f"{about}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{about}/entry_points.txt", f"[spindle.plugins]\n{entries}")
        archive.writestr(f"{about}/RECORD", "")
    zipfile.ZipFile(wheel).extractall(folder)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plugins") / "site"
    folder.mkdir()
    install(folder, "weather", WEATHER, "weather = weather:plugin\n")
    install(folder, "broken", BROKEN, BROKEN_ENTRIES)
    install(folder, "clashing", CLASHING, "mine = clashing:plugin\n")
    install(
        folder, "numbers", {"numbers_plugin.py": "x = 1\n"}, "numbers = numbers_plugin:x\nUpper = numbers_plugin:x\n"
    )
    return folder


def python(installed: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A Spindle process that has the plugins on its path, which only its driver is told of."""
    code = f"import sys; sys.path.append({str(installed)!r}); sys.path.insert(0, {str(ROOT)!r}); "
    environment = {**os.environ, "PYTHONSAFEPATH": "1"}
    environment.pop("PYTHONPATH", None)
    command = [sys.executable, "-c", code + arguments[0], *arguments[1:]]
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=installed, timeout=200)


SPINDLE = "from cli.main import main; main()"
FORECAST = """
fetch: {{url: "{url}/"}}
pipeline:
  - stage: flatSelect
    args: [li, {{selector: b, as: place}}, {{selector: i, method: Degrees, as: degrees}}, {{selector: u, as: wind}}]
  - {{stage: wind_force, args: [wind]}}
  - {{stage: "python_row_transform:toFahrenheit", args: {{digits: 1}}}}
"""


CLIMATE = """
fetch: {{url: "{url}/"}}
pipeline:
  - {{stage: flatSelect, args: [li, {{selector: b, as: place}}]}}
  - {{stage: climate, args: [place]}}
spindle: {{keepColumns: [_error]}}
"""


def test_a_stage_of_a_plugin_asks_a_service(
    installed: Path, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = {"/": "<li><b>Oslo</b></li><li><b>Rome</b></li><li><b>Oslo</b></li>"}
    url = site.serve(pages | {"/climate?place=Oslo": '{"mean": 6.3}', "/climate?place=Rome": "{"})
    monkeypatch.setenv("CLIMATE_URL", url)
    (tmp_path / "climate.yaml").write_text(CLIMATE.format(url=url))
    ran = python(installed, SPINDLE, "run", str(tmp_path / "climate.yaml"), "-o", str(tmp_path / "rows.json"))
    assert ran.returncode == 0, ran.stderr
    assert json.loads((tmp_path / "rows.json").read_text()) == [
        {"place": "Oslo", "mean": 6.3, "_error": None},
        {"place": "Rome", "mean": None, "_error": "the climate service sent no temperature"},
        {"place": "Oslo", "mean": 6.3, "_error": None},
    ]
    assert site.requests["/climate?place=Oslo"] == 1


@pytest.mark.long
def test_stages_of_a_plugin_run_on_spark(installed: Path, site: Site, tmp_path: Path) -> None:
    url = site.serve({"/": "<li><b>Oslo</b><i>4 °C</i><u>7.5</u></li><li><b>Rome</b><i>18.3°C</i><u>1</u></li>"})
    (tmp_path / "forecast.yaml").write_text(FORECAST.format(url=url) + "  - {stage: echo, args: [1, forecast]}\n")
    ran = python(installed, SPINDLE, "run", str(tmp_path / "forecast.yaml"), "-o", str(tmp_path / "rows.json"))
    assert ran.returncode == 0, ran.stderr
    assert re.search(r'^echo forecast 1: \{.*"place": "Oslo"', ran.stderr, re.MULTILINE), ran.stderr
    assert json.loads((tmp_path / "rows.json").read_text()) == [
        {"place": "Oslo", "fahrenheit": 39.2, "force": 4},
        {"place": "Rome", "fahrenheit": 64.9, "force": 1},
    ]


def test_check_lists_plugins_and_their_failures(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "forecast.yaml").write_text(FORECAST.format(url="http://127.0.0.1"))
    checked = python(installed, SPINDLE, "check", str(tmp_path / "forecast.yaml"))
    assert checked.returncode == 0
    assert "beaufort" in checked.stdout
    assert "columns: place string, fahrenheit double, force bigint" in checked.stdout
    left_out = "warning: the plugin {} is left out, because it cannot be loaded: "
    assert checked.stderr.splitlines() == [
        left_out.format("Upper") + "its name must begin with a small letter, and have only small letters, digits, "
        "'-' and '_'",
        left_out.format("broken") + "ModuleNotFoundError: No module named 'a_library_that_is_not_there'",
        left_out.format("ends") + "SystemExit: no license",
        left_out.format("mine") + "two stages are called wget_join: the other one is of spindle",
        left_out.format("numbers") + "numbers_plugin:x is no spindle.Plugin",
    ]


NAMES = """
import json
from pipelines.errors import PipelineError
from pipelines.listing import list_all_stages
from pipelines.pipeline import Pipeline
from pipelines.reference import build_reference

def told(text):
    try:
        Pipeline.from_yaml(text).plan()
    except PipelineError as error:
        return str(error)

print(json.dumps({
    "listing": [(each.name, each.plugin, each.description) for each in list_all_stages() if each.is_from_plugin],
    "docs": build_reference(),
    "stage": told("pipeline: [{stage: beaufor}]"),
    "clashing": told("pipeline: [{stage: gusts}]"),
    "method": told("pipeline: [{stage: extract, args: [{selector: a, method: degree}]}]"),
    "action": told("fetch: {url: 'http://a/', traces: [{action: sunrize}]}\\npipeline: [{stage: cache}]"),
    "transform": told("fetch: {url: 'http://a/'}\\npipeline: [{stage: 'python_row_transform:to_farenheit'}]"),
}))
"""


def test_stages_of_a_plugin_are_in_the_catalogue_the_docs_and_near_matches(installed: Path) -> None:
    asked = python(installed, NAMES)
    assert asked.returncode == 0, asked.stderr
    told = json.loads(asked.stdout)
    assert [each for each in told["listing"] if each[1] not in FIRST_PARTY] == [
        ["beaufort", "weather", "Add the wind force to each row."],
        ["calm", "whole", "Of the same package, and whole."],
        ["climate", "weather", "Add the mean temperature of each place, from a climate service."],
        ["python_row_transform:to_fahrenheit", "weather", "Convert degrees."],
    ]
    for heading in ("## beaufort", "### sunrise", "`degrees`"):
        assert heading in told["docs"]
    assert "unknown stage 'beaufor'; did you mean beaufort?" in told["stage"]
    assert "unknown stage 'gusts'" in told["clashing"]
    assert "the plugin mine is left out" in told["clashing"]
    assert "did you mean degrees?" in told["method"]
    assert "did you mean sunrise?" in told["action"]
    assert "did you mean to_fahrenheit?" in told["transform"]
