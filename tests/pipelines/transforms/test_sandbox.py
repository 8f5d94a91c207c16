"""The process of a user's row transform: what it may not reach, and that nothing it does harms its worker."""

from __future__ import annotations

import errno
import gc
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pipelines.errors import RunError
from pipelines.transforms import sandbox
from pipelines.transforms.sandbox import FunctionCall, Limits, Outcome, RowFailed, Sandbox
from pipelines.transforms.transform import Transforms
from tests.support.processes import descendants, running
from tests.support.service import PATIENCE_SECONDS, wait_until

Call = Callable[..., Any]


@pytest.fixture
def call() -> Iterator[Call]:
    """Calls a function's body with a row; several calls with one body go to one process."""
    made: dict[tuple[str, Limits], Sandbox] = {}

    def call(body: str, row: dict[str, Any] | None = None, **limits: Any) -> Any:
        source = "def f(row):\n" + "".join(f"  {line}\n" for line in body.splitlines())
        held = Limits(**{"seconds": 60.0, "only_isolated": True, **limits})
        box = made.setdefault((body, held), Sandbox(FunctionCall("f", source, "f", {}, held)))
        return only(box.run([row or {}]))

    yield call
    for box in made.values():
        box.close()


def only(outcomes: Iterator[Outcome]) -> dict[str, Any] | None:
    (outcome,) = outcomes
    if isinstance(outcome, RowFailed):
        raise outcome
    return outcome


def failure(call: Call, body: str, **limits: Any) -> str:
    with pytest.raises(RowFailed) as error:
        call(body, **limits)
    return str(error.value)


def test_rows_left_to_the_garbage_collector_do_not_spoil_the_next_ones() -> None:
    run = Transforms({"f": "def f(row):\n  return row"}).find("f").make_runner({})
    outcomes = run([{"a": 1}])
    assert next(outcomes) == {"a": 1}
    cycle: list[Any] = [outcomes]
    cycle.append(cycle)
    del outcomes, cycle
    gc.collect()
    assert list(run([{"a": 2}])) == [{"a": 2}]


def test_no_file_but_pythons_own_can_be_read(call: Call, tmp_path: Path) -> None:
    key = tmp_path / "secret-key"
    key.write_text("canary")
    for path in (key, "/etc/passwd", f"/proc/{os.getpid()}/environ", "/proc/self/environ", "/proc/1/cmdline", "/root"):
        assert "FileNotFoundError" in failure(call, f"open({str(path)!r}).read()") or path == "/root"
    assert set(call("import os\nreturn {'root': os.listdir('/')}")["root"]) <= {
        "usr",
        "lib",
        "lib64",
        "root",
        "opt",
        "home",
    }


def test_its_environment_is_empty_and_it_has_no_open_files(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPINDLE_EXECUTION_TOKEN", "canary")
    assert call("import os\nreturn dict(os.environ)") == {"LANG": "C.UTF-8", "TZ": "UTC"}
    with socket.create_server(("127.0.0.1", 0)) as held:
        os.set_inheritable(held.fileno(), True)
        found = call(
            "import os, stat\nopen_ = []\nfor n in range(64):\n  try: open_.append(stat.S_IFMT(os.fstat(n).st_mode))\n"
            "  except OSError: pass\nreturn {'kinds': sorted(set(open_))}"
        )
    assert found["kinds"] == [0o010000, 0o020000]  # its two pipes, and /dev/null


def test_nothing_can_be_written(call: Call) -> None:
    for path in ("/x", "/usr/lib/x", "/tmp/x"):
        assert "Error" in failure(call, f"open({path!r}, 'w').write('x')")


def test_there_is_no_network(call: Call) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        told = failure(call, f"import socket\nsocket.create_connection(('127.0.0.1', {port}), 1)")
    assert "Network is unreachable" in told


def test_it_is_another_user_that_sees_no_other_process(call: Call) -> None:
    found = call("import os\nreturn {'uid': os.getuid(), 'pid': os.getpid(), 'groups': os.getgroups()}")
    assert found["pid"] < 10
    if os.geteuid() == 0:
        assert 60578 <= found["uid"] < 61178
        assert found["groups"] == []
    for signalled in (1, os.getpid(), os.getppid()):
        assert "Error" in failure(call, f"import os\nos.kill({signalled}, 9)")


def test_it_cannot_become_root_again(call: Call) -> None:
    becoming = (
        "libc.setresuid(0, 0, 0), libc.unshare(0x10000000), libc.chroot(b'/usr'), libc.mount(b'/', b'/', 0, 4096, 0)"
    )
    asked = f"import ctypes\nlibc = ctypes.CDLL(None)\nreturn {{'done': [{becoming}]}}"
    assert call(asked)["done"] == [-1] * 4


def test_it_can_start_no_process_and_no_thread(call: Call) -> None:
    assert "BlockingIOError" in failure(call, "import os\nwhile True: os.fork()")
    assert "can't start new thread" in failure(call, "import threading\nthreading.Thread(target=print).start()")


UNCOUNTED = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
rt = ctypes.CDLL("librt.so.1", use_errno=True)
got = [libc.shmget(0, 1 << 20, 0o1600), libc.semget(0, 100, 0o1600), libc.msgget(0, 0o1600)]
return {"got": [*got, rt.mq_open(b"/queue", 0o102, 0o600, None)], "error": ctypes.get_errno()}
"""


def test_no_memory_can_be_left_with_the_kernel(call: Call) -> None:
    assert call(UNCOUNTED) == {"got": [-1] * 4, "error": errno.EPERM}


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="only these processors have other sets of system calls")
def test_the_kernels_other_sets_of_calls_lead_to_no_memory_either(call: Call) -> None:
    asked = "import ctypes\nreturn {'got': ctypes.CDLL(None).syscall((1 << 30) + 29, 0, 1 << 20, 0o1600)}"
    assert call(asked) == {"got": -1}


@pytest.mark.parametrize("isolated", [True, False])
def test_memory_and_time_are_limited(call: Call, isolated: bool, request: pytest.FixtureRequest) -> None:
    if not isolated:
        request.getfixturevalue("refusing_kernel")
    limits = {"only_isolated": isolated}
    assert failure(call, "x = bytearray(10 ** 10)", **limits) == "line 2: MemoryError (it may have 512 MiB)"
    assert failure(call, "while True: pass", seconds=0.3, **limits) == "it took longer than 0.3 s for a row"
    assert failure(call, "while True:\n  try: input()\n  except BaseException: pass", seconds=0.3, **limits)


@pytest.mark.parametrize(
    ("ending", "told"),
    [
        ("import os\nos._exit(3)", "exit code 3"),
        ("import ctypes\nctypes.string_at(0)", "SIGSEGV"),
        ("import os\nos.kill(os.getpid(), 9)", "SIGKILL"),
        ("import sys\nsys.exit()", "SystemExit"),
    ],
)
def test_a_process_that_ends_costs_its_row_and_the_next_row_gets_another(call: Call, ending: str, told: str) -> None:
    body = "if row:\n" + "".join(f"  {line}\n" for line in ending.splitlines()) + "return {'a': 1}"
    with pytest.raises(RowFailed, match=told):
        call(body, {"end": True})
    assert call(body) == {"a": 1}


BAD_ROWS = """
import os, time
if row["n"] == 3: time.sleep(60)
if row["n"] == 5: raise ValueError("five")
if row["n"] == 7: os._exit(0)
if row["n"] == 8: return None
return {"n": row["n"], "text": row["text"][:9]}
"""


@pytest.mark.long
@pytest.mark.parametrize("size", [1, 200_000])  # with the larger one, neither side's pipe holds the whole batch
def test_of_rows_that_go_together_each_has_its_own_limits_and_errors(size: int) -> None:
    source = "def f(row):\n" + "".join(f"  {line}\n" for line in BAD_ROWS.splitlines())
    box = Sandbox(FunctionCall("f", source, "f", {}, Limits(seconds=4.0)))
    outcomes = list(box.run({"n": n, "text": "x" * size} for n in range(20)))
    box.close()
    assert {n: str(each) for n, each in enumerate(outcomes) if isinstance(each, RowFailed)} == {
        3: "it took longer than 4 s for a row",
        5: "line 5: ValueError: five",
        7: "it ended its process with exit code 0",
    }
    assert outcomes[8] is None
    assert [each["n"] for each in outcomes if isinstance(each, dict)] == [0, 1, 2, 4, 6, *range(9, 20)]


def test_rows_that_nobody_waits_for_are_not_answered_later() -> None:
    box = Sandbox(FunctionCall("f", "def f(row): return row", "f", {}, Limits()))
    for outcome in box.run({"n": n} for n in range(50)):
        assert outcome == {"n": 0}
        break
    assert list(box.run([{"n": "next"}])) == [{"n": "next"}]
    box.close()


def test_its_prints_are_discarded(call: Call) -> None:
    assert call("print('{\"row\": {\"a\": 2}}', flush=True)\nimport sys\nsys.stderr.write('x')\nreturn {'a': 1}") == {
        "a": 1
    }


FORGING = """
import os
for n in range(3, 64):
  try: os.write(n, {line})
  except OSError: pass
return row
"""


@pytest.mark.parametrize(
    "line",
    [
        b"not JSON\n",
        b"5\n",
        b"[" * 9_999 + b"\n",
        b'{"row": {"a": {"$": "bytes", "of": 1}}}\n',
        b'{"number": 1, "row": {"$": "dict", "of": [[1, 2]]}}\n',
        b'{"number": 1, "row": {"a": ' + b"[" * 300 + b"]" * 300 + b"}}\n",
        b'{"number": 1, "row": ' + b'{"a": ' * 300 + b"1" + b"}" * 300 + b"}\n",
    ],
)
def test_forged_answers_are_noticed(call: Call, line: bytes) -> None:
    assert failure(call, FORGING.format(line=line)) == "it gave no answer that could be read"


def test_an_answer_counts_only_for_the_row_that_was_asked(call: Call) -> None:
    forging = FORGING.format(line=b'{"number": 1, "row": {"a": "forged"}}\n')
    assert call(forging, {"a": 1}) == {"a": "forged"}
    for number in (2, 3):
        with pytest.raises(RowFailed):
            call(forging, {"a": number})


def test_an_answer_is_limited_and_its_message_is_shown_plain(call: Call) -> None:
    assert failure(call, "return {'a': 'x' * 17_000_000}") == "its row has more than 16 MiB"
    told = failure(call, "raise ValueError('a' * 10_000 + '\\x1b[31m')")
    assert len(told) <= 500
    assert failure(call, "raise ValueError('\\x1b[31mred\\n' + repr(object()))").isprintable()


@pytest.mark.parametrize("part", ["[],", "{},", "1,", "[" * 50 + "]" * 50 + ","])
def test_an_answer_of_very_many_values_is_not_read(call: Call, monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    read: list[int] = []
    loads = sandbox.values.loads

    def counted(line: bytes) -> Any:
        read.append(len(line))
        return loads(line)

    monkeypatch.setattr(sandbox.values, "loads", counted)
    told = failure(
        call,
        f"""import os
line = b'{{"number": 1, "row": {{"a": [' + b'{part}' * ({10_000_000} // {len(part)}) + b'1]}}}}\\n'
for n in range(3, 64):
  try:
    while line: line = line[os.write(n, line):]
  except OSError: pass""",
    )
    assert told == "its row has more than 1,000,000 commas and brackets, in texts and between values"
    assert max(read) < 1000


def test_a_row_of_many_values_is_an_answer(call: Call) -> None:
    assert len(call("return {'a': list(range(300_000))}")["a"]) == 300_000


def test_errors_are_the_same_in_each_run(call: Call) -> None:
    told = {failure(call, f"raise ValueError(object()) # {n}") for n in range(3)}
    assert told == {"line 2: ValueError: <object object>"}


@pytest.mark.parametrize("value", ["object()", "{1: 2}", "open", "{'a': object()}"])
def test_a_value_that_fits_in_no_column_is_the_rows_error(call: Call, value: str) -> None:
    assert "Error" in failure(call, f"return {{'a': {value}}}")


@pytest.fixture
def refusing_kernel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """As where namespaces are forbidden: the jail's text."""
    refusing = tmp_path / "jail.py"
    jail = Path(sandbox.__file__).with_name("jail.py")
    text = jail.read_text().replace(
        "def isolate(folders: list[str]) -> None:\n",
        "def isolate(folders: list[str]) -> None:\n    raise OSError(1, 'refused')\n",
    )
    refusing.write_text(text)
    refusing.with_name("values.py").write_text(jail.with_name("values.py").read_text())
    monkeypatch.setattr(sandbox, "_JAIL", refusing)
    sandbox.get_isolation_refusal.cache_clear()
    yield refusing
    sandbox.get_isolation_refusal.cache_clear()


@pytest.mark.usefixtures("refusing_kernel")
def test_where_it_cannot_be_isolated_it_does_not_run() -> None:
    box = Sandbox(FunctionCall("f", "def f(row): return row", "f", {}, Limits(only_isolated=True)))
    with pytest.raises(RunError, match="several organizations, so a user's Python runs only where it can be isolated"):
        only(box.run([{}]))


READING = """
def f(row):
  try: return {"read": open(row["path"]).read()}
  except OSError as error: return {"read": str(error)}
"""


def test_with_one_organization_too_the_services_files_are_out_of_reach(tmp_path: Path) -> None:
    key = tmp_path / "admin-key"
    key.write_text("canary")
    box = Sandbox(FunctionCall("f", READING, "f", {}, Limits()))
    assert only(box.run([{"path": str(key)}])) == {"read": f"[Errno 2] No such file or directory: '{key}'"}
    box.close()
    assert Transforms.from_text(READING).warning() is None


@pytest.mark.usefixtures("refusing_kernel")
def test_with_one_organization_it_runs_with_a_warning(tmp_path: Path) -> None:
    key = tmp_path / "admin-key"
    key.write_text("canary")
    box = Sandbox(FunctionCall("f", READING, "f", {}, Limits()))
    assert [only(box.run([{"path": str(key)}])) for _ in range(2)] == [{"read": "canary"}] * 2
    box.close()
    warning = Transforms.from_text(READING).warning()
    assert warning.startswith("row transforms run as this user")
    assert warning.endswith("the system does not isolate them (refused)")
    assert Transforms().warning() is None


REFUSING = """
import os
for n in range(3, 64):
  if os.path.exists("/etc"): break  # it is where it wants to be
  try: os.write(n, b'{"refused": "x"}\\n')
  except OSError: pass
"""


def test_a_text_that_says_it_is_not_isolated_is_believed_nothing_and_not_started_otherwise(tmp_path: Path) -> None:
    key = tmp_path / "admin-key"
    key.write_text("canary")
    box = Sandbox(FunctionCall("f", REFUSING + READING, "f", {}, Limits()))
    for _ in range(3):
        with pytest.raises(RunError, match="f cannot be loaded: it gave no answer that could be read"):
            only(box.run([{"path": str(key)}]))
    assert sandbox.get_isolation_refusal() is None


def test_the_process_is_isolated_before_it_is_given_the_text() -> None:
    jail = subprocess.Popen([sys.executable, "-I", "-S", sandbox._JAIL], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert jail.stdin
    assert jail.stdout
    jail.stdin.write(json.dumps({"memory": 2**29, "isolated": True, "folders": []}).encode() + b"\n")
    jail.stdin.flush()
    assert json.loads(jail.stdout.readline()) == {"held": True}
    with jail:
        jail.kill()


@pytest.mark.parametrize("only_isolated", [True, False])
def test_a_lack_that_passes_costs_the_run_and_not_the_isolation(
    refusing_kernel: Path, tmp_path: Path, only_isolated: bool
) -> None:
    jail = refusing_kernel.read_text().replace("OSError(1, 'refused')", "OSError(11, 'no process is left')")
    refusing_kernel.write_text(jail)
    key = tmp_path / "admin-key"
    key.write_text("canary")
    box = Sandbox(FunctionCall("f", READING, "f", {}, Limits(only_isolated=only_isolated)))
    for _ in range(2):
        with pytest.raises(RunError, match="cannot be loaded: no process is left"):
            only(box.run([{"path": str(key)}]))


def test_the_process_ends_with_its_worker() -> None:
    code = (
        "import sys, time\n"
        "from pipelines.transforms.sandbox import *\n"
        "box = Sandbox(FunctionCall('f', 'import ctypes, signal\\nsignal.signal(15, signal.SIG_IGN)\\n"
        "ctypes.CDLL(None).prctl(1, 0)\\ndef f(row): return {}', 'f', {}, Limits(only_isolated=True)))\n"
        "list(box.run([{}]))\nprint(box._process.pid, flush=True)\ntime.sleep(600)\n"
    )
    worker = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3]
    )
    outer = int(worker.stdout.readline())
    family = [outer, *descendants(outer)]
    assert len(family) == 3
    worker.kill()
    worker.wait()
    worker.stdout.close()
    wait_until(lambda: not running(family), PATIENCE_SECONDS)


def test_what_a_function_prints_and_its_tracebacks_go_to_stderr(
    call: Call, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert call("print('price', row['price'])\nreturn row", {"price": 3}) == {"price": 3}
    assert capsys.readouterr().err == "[row function f] price 3\n"
    failure(call, "import sys\nprint('\\ud800\\x1b[31m\\nred', file=sys.stderr)\nsys.stdout.close()\nreturn 1 / 0")
    printed, red, *trace = capsys.readouterr().err.splitlines()
    assert (printed, red) == ("[row function f]   [31m", "[row function f] red")
    assert [line.removeprefix("[row function f] ") for line in trace] == [
        "Traceback (most recent call last):",
        '  File "<row transform>", line 5, in f',
        "    return 1 / 0",
        "           ~~^~~",
        "ZeroDivisionError: division by zero",
    ]
    monkeypatch.setattr(sandbox, "_MAX_PRINTED", 100)
    for _ in range(2):
        call("for number in range(1000): print(number)\nreturn row")
    assert capsys.readouterr().err.splitlines()[-1].endswith("(later output is left out)")
