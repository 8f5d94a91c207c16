"""The process that runs a user's row transform: `python -I -S jail.py`, with requests on stdin and answers on stdout.

It starts with an empty environment. To be isolated, it enters new Linux namespaces (namespaces(7)): a read-only file
system with the standard library, no network, no other processes, and a separate user id or user namespace. seccomp(2)
blocks kernel memory that no limit covers. Then it confirms its limits, and receives the user's text.
This module imports the standard library only.
"""

from __future__ import annotations

import ctypes
import dataclasses
import errno
import io
import linecache
import os
import re
import resource
import signal
import struct
import sys
import sysconfig
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, cast

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import values  # pyright: ignore[reportMissingImports] - from this folder: the package cannot be imported here

del sys.path[0]

USER_FILE = "<row transform>"
# the process limit counts per user id: an unused range, one id for every process
FIRST_UID, UIDS = 60578, 600
CPU_SECONDS, RENEW_AFTER_CPU_SECONDS = 3600, 1800
OPEN_FILES = 64
MAX_PRINTED = 10_000  # characters of a row, the rest is left out
PASSING = (errno.EAGAIN, errno.EINTR, errno.EMFILE, errno.ENFILE, errno.ENOMEM)  # temporary errors

NEW_MOUNTS, NEW_NAMES, NEW_IPC, NEW_USER, NEW_PIDS, NEW_NETWORK = 1 << 17, 1 << 26, 1 << 27, 1 << 28, 1 << 29, 1 << 30
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_NOATIME, MS_NODIRATIME, MS_BIND, MS_REC, MS_PRIVATE, MS_RELATIME = (
    1 << 10,
    1 << 11,
    1 << 12,
    1 << 14,
    1 << 18,
    1 << 21,
)
PR_SET_PDEATHSIG, PR_SET_SECCOMP, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 1, 22, 24, 38
CAPABILITIES_VERSION_3 = 0x20080522
SECCOMP_MODE_FILTER, SECCOMP_REFUSE, SECCOMP_ALLOW = 2, 0x50000 | errno.EPERM, 0x7FFF0000
# numbers of an architecture and its calls shmget, semget, msgget and mq_open, whose memory no limit covers
UNCOUNTED_CALLS = {
    "x86_64": (0xC000003E, (29, 64, 68, 240)),
    "aarch64": (0xC00000B7, (194, 190, 186, 180)),
}
OTHER_X86_CALLS = 0x40000000  # the first number of the x32 ABI, which has the same calls
BPF_LOAD, BPF_JUMP_EQUAL, BPF_JUMP_AT_LEAST, BPF_RETURN = 0x20, 0x15, 0x35, 0x06

_libc = ctypes.CDLL(None, use_errno=True)


def _check_result(result: int) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    texts = (each.encode() if each is not None else None for each in (source, target, kind))
    _check_result(_libc.mount(*texts, ctypes.c_ulong(flags), data.encode() if data else None))


def _prctl(option: int, value: int) -> None:
    _check_result(_libc.prctl(option, value, 0, 0, 0))


def isolate(folders: list[str]) -> None:
    """Isolate this process: return in a grandchild, while this process only waits for it.

    It reads the given folders beside Python's own.
    """
    if sys.platform != "linux":
        raise OSError(0, "only Linux has namespaces")
    privileged = os.geteuid() == 0
    uid, gid, own_uid = os.geteuid(), os.getegid(), FIRST_UID + os.getpid() % UIDS
    namespaces = NEW_MOUNTS | NEW_NAMES | NEW_IPC | NEW_PIDS | NEW_NETWORK
    _check_result(_libc.unshare(namespaces if privileged else namespaces | NEW_USER))
    if not privileged:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    _fork_child()
    _mount_root(folders)
    _fork_child()  # limits do not apply to the first process of a namespace, which only waits
    if privileged:
        os.setgroups([])
        os.setresgid(own_uid, own_uid, own_uid)
        os.setresuid(own_uid, own_uid, own_uid)
    _drop_capabilities()
    _prctl(PR_SET_NO_NEW_PRIVS, 1)
    _refuse_uncounted_memory()
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # a change of the user id has cleared it


def _fork_child() -> None:
    """Return in a child process that ends with its parent; the parent only waits for it."""
    if child := os.fork():
        os.closerange(0, OPEN_FILES)
        _, status = os.waitpid(child, 0)
        os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _mount_root(folders: list[str]) -> None:
    """Change to a root with the standard library, system libraries and the given folders, read-only."""
    library = Path(sysconfig.get_path("stdlib")).parent
    shown = {str(library), "/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/share/zoneinfo", *folders}
    hidden = Path.cwd()
    if any(hidden.is_relative_to(Path(each).resolve()) for each in shown):
        raise OSError(0, f"the working folder {hidden} lies among Python's own files")
    _mount("none", "/", None, MS_REC | MS_PRIVATE)
    root = "/proc"  # an existing folder outside of the mounted ones
    _mount("tmpfs", root, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "size=64k,mode=755")
    for source in sorted(each for each in shown if os.path.isdir(each)):
        target = root + source
        os.makedirs(target, exist_ok=True)
        _mount(os.path.realpath(source), target, None, MS_BIND | MS_REC)
        _mount("none", target, None, MS_BIND | MS_REMOUNT | MS_RDONLY | _get_mount_flags(target))
    _mount("none", root, None, MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC)
    os.chroot(root)
    os.chdir("/")


def _get_mount_flags(path: str) -> int:
    """Return the restrictions of a mount, which a namespace may not loosen."""
    held = os.statvfs(path).f_flag
    pairs = (
        (os.ST_NOSUID, MS_NOSUID),
        (os.ST_NODEV, MS_NODEV),
        (os.ST_NOEXEC, MS_NOEXEC),
        (os.ST_NOATIME, MS_NOATIME),
        (os.ST_NODIRATIME, MS_NODIRATIME),
        (os.ST_RELATIME, MS_RELATIME),
    )
    return MS_NOSUID | MS_NODEV | sum(flag for there, flag in pairs if held & there and flag > MS_NODEV)


def _drop_capabilities() -> None:
    for capability in range(64):
        if _libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0):
            break
    header = (ctypes.c_uint32 * 2)(CAPABILITIES_VERSION_3, 0)
    _check_result(_libc.capset(header, (ctypes.c_uint32 * 6)()))


def _refuse_uncounted_memory() -> None:
    """Block shared memory, semaphores and message queues, which are outside of the limited address space."""
    machine = os.uname().machine
    if machine not in UNCOUNTED_CALLS:
        raise OSError(0, f"system calls of {machine} processors are not known")
    processor, calls = UNCOUNTED_CALLS[machine]
    program = [
        (BPF_LOAD, 0, 0, 4),  # the architecture of the call
        (BPF_JUMP_EQUAL, 0, len(calls) + 3, processor),
        (BPF_LOAD, 0, 0, 0),  # the call's number
        (BPF_JUMP_AT_LEAST, len(calls) + 1, 0, OTHER_X86_CALLS),
        *((BPF_JUMP_EQUAL, len(calls) - place, 0, call) for place, call in enumerate(calls)),
        (BPF_RETURN, 0, 0, SECCOMP_ALLOW),
        (BPF_RETURN, 0, 0, SECCOMP_REFUSE),
    ]
    instructions = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *each) for each in program))
    header = struct.pack("HP", len(program), ctypes.addressof(instructions))
    _check_result(_libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, header, 0, 0))


def limit_process(memory: int, alone: bool) -> None:
    """Set hard limits; with `alone`, when no other process has the user id, this one can start no process."""
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, OPEN_FILES))
    if alone:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))


class PrintedText(io.StringIO):
    """The printed text of the user's code; the code cannot close it."""

    def write(self, text: str, /) -> int:
        super().write(text[: max(0, MAX_PRINTED - self.tell())])
        return len(text)

    def close(self) -> None:
        pass

    def take(self) -> str:
        """Return the text, and begin again."""
        text = self.getvalue()
        self.seek(0)
        self.truncate()
        return text


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer each row in turn, until there are no more or the CPU time suggests a new process."""
    held: dict[str, Any] = values.loads(requests.readline())
    try:
        if held["isolated"]:
            isolate(held["folders"])
        limit_process(held["memory"], held["isolated"])
    except OSError as error:
        _send_answer(answers, {"broken" if error.errno in PASSING else "refused": f"{error.strerror or error}"})
        return
    _send_answer(answers, {"held": True})
    task: dict[str, Any] = values.loads(requests.readline())
    if task["packages"]:
        sys.path.append(task["packages"])
    printed = sys.stdout = sys.stderr = PrintedText()
    linecache.cache[USER_FILE] = len(task["source"]), None, task["source"].splitlines(keepends=True), USER_FILE
    try:
        function = _load_function(task)
    except BaseException as error:  # SystemExit too: the code is untrusted
        _send_answer(answers, {"broken": _describe_error(error), "printed": printed.take() + _format_trace(error)})
        return
    _send_answer(answers, {"ready": True, "printed": printed.take()})
    for line in requests:
        asked = values.loads(line)
        outcome = _call_function(function, asked["row"], task["arguments"])
        shown = values.dumps(printed.take()).encode()
        answers.write(b'{"number": %d, "printed": %s, %s}\n' % (asked["number"], shown, outcome))
        answers.flush()
        if time.process_time() > RENEW_AFTER_CPU_SECONDS:
            return


def _load_function(task: dict[str, Any]) -> Callable[..., Any]:
    names: dict[str, Any] = {"__name__": "row_transform"}
    exec(compile(task["source"], USER_FILE, "exec", dont_inherit=True), names)  # noqa: S102 - what this process is for
    return names[task["function"]]


def _call_function(function: Callable[..., Any], row: dict[str, Any], arguments: dict[str, Any]) -> bytes:
    """Return the outcome of a row as the rest of a JSON object; a value that fits in no column is an error."""
    try:
        return f'"row": {values.dumps(_convert_result(function(row, **arguments)))}'.encode()
    except BaseException as error:  # SystemExit too: the code is untrusted
        described, trace = (values.dumps(each) for each in (_describe_error(error), _format_trace(error)))
        return f'"error": {described}, "trace": {trace}'.encode()


def _convert_result(result: Any) -> Any:
    if dataclasses.is_dataclass(result) and not isinstance(result, type):
        result = dataclasses.asdict(result)
    if result is not None and not isinstance(result, dict):
        raise TypeError(f"it returned a {type(result).__name__}; a row is a dict, and None drops it")
    return cast(Any, result)


def _describe_error(error: BaseException) -> str:
    """Return the error with its line in the user's text, without memory addresses, which differ between runs."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == USER_FILE]
    number = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
    message = re.sub(r" at 0x[0-9a-f]+", "", str(error)).strip()
    text = f"{type(error).__name__}: {message}" if message else type(error).__name__
    return f"line {number}: {text}" if number else text


def _format_trace(error: BaseException) -> str:
    """Return the traceback from the first line of the user's text."""
    trace = error.__traceback__
    while trace and trace.tb_frame.f_code.co_filename != USER_FILE:
        trace = trace.tb_next
    return "".join(traceback.format_exception(type(error), error, trace))[-MAX_PRINTED:]


def _send_answer(answers: BinaryIO, answer: dict[str, Any]) -> None:
    answers.write(values.dumps(answer).encode() + b"\n")
    answers.flush()


def main() -> NoReturn:
    """Serve on duplicates of stdin and stdout, which the user's code finds connected to /dev/null."""
    if sys.platform == "linux":  # on other systems it ends with its pipe
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nowhere, standard)
    serve(requests, answers)
    os._exit(0)


if __name__ == "__main__":
    main()
