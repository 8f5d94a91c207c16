"""Count the modules of ours that take part in one execution and in one page: `python -m bench.modules`.

A module counts when one of its functions runs in any process after the start, not counting its import.
The execution is the README's job on a small site; the page is one of bench.crawl, counted in Spark's Python workers.
"""

from __future__ import annotations

import http.server
import subprocess
import sys
import sysconfig
import tempfile
import threading
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from bench.service import CLONE, create_job, post, run_spindle, wait_until_completed

ROOMS = ("api", "cli", "core", "driver", "orchestration", "pipelines", "plugins", "spindle")
README_JOB = """
fetch: {url: "${SITE}"}
pipeline:
  - {stage: wgetExplore, args: [li.next a, {depth: 60}]}
  - {stage: wgetJoin, args: [article.product_pod h3 a, {joinType: Inner}]}
  - stage: extract
    args:
      - {selector: h1, method: text, as: title}
      - {selector: .price_color, method: price, as: price}
spindle: {engine: spark}
"""
PAGES = {
    "index.html": "<article class=product_pod><h3><a href=a.html>A</a></h3></article><li class=next><a href=2.html>",
    "2.html": "<article class=product_pod><h3><a href=b.html>B</a></h3></article>",
    "a.html": "<h1>A</h1><p class=price_color>£1.50</p>",
    "b.html": "<h1>B</h1><p class=price_color>£2.50</p>",
}
CATALOG = {"index.html": "<li class=item><a href=a.html>A</a></li>", "a.html": "<h1>A</h1><p class=price>€ 1,50</p>"}
# runs in every Python process: from the creation of the file `start` on, writes the modules to a file per process
HOOK = """
import os, sys, threading, time
_clone, _folder, _rooms = {clone!r} + "/", {folder!r}, {rooms!r}
_seen, _next_look, _active = set(), 0.0, False
_kind = "worker" if "pipelines.spark.daemon" in sys.orig_argv else "process"

def _is_importing(frame):
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__") != "__main__":
            return True
        frame = frame.f_back
    return False

def _record(frame, event, argument):
    global _next_look, _active
    if event != "call" or frame.f_code.co_name == "<module>" or not frame.f_code.co_flags & 1:
        return
    name = frame.f_code.co_filename
    if name in _seen or not name.startswith(_clone) or not name[len(_clone):].startswith(_rooms):
        return
    if not _active:
        now = time.monotonic()
        if now < _next_look:
            return
        _next_look, _active = now + 0.05, os.path.exists(_folder + "/start")
    if _active and not _is_importing(frame):
        _seen.add(name)
        with open(f"{{_folder}}/{{_kind}}-{{os.getpid()}}", "a") as file:
            file.write(name[len(_clone):] + "\\n")

sys.setprofile(_record)
threading.setprofile(_record)
"""


def main() -> None:
    with watch_modules() as folder, serve(PAGES) as site:
        with run_spindle({"SPINDLE_FETCH_ALLOW_NETWORKS": "127.0.0.1/32"}) as service:
            job = create_job(service.client, "modules", README_JOB)
            (folder / "start").touch()
            execution = post(service.client, f"{job}/execute", {"parameters": {"SITE": site}})["executionId"]
            wait_until_completed(service.client, job, execution)
        report("one execute", folder, "*-*")
    with watch_modules() as folder, serve(CATALOG) as site:
        (folder / "start").touch()
        command = [sys.executable, "-m", "bench.crawlers.engine", "catalog", site, "1", "off", "1"]
        subprocess.run(command, cwd=CLONE, check=True, capture_output=True)
        report("one page of bench.crawl", folder, "worker-*")


@contextmanager
def watch_modules() -> Generator[Path]:
    """Yield a folder to which all Python processes of this installation write their modules.

    They are hooked by a `.pth` file, as the service gives its children an environment of their own.
    """
    pth = Path(sysconfig.get_path("purelib")) / "spindle-bench-modules.pth"
    with tempfile.TemporaryDirectory(prefix="spindle-modules-", ignore_cleanup_errors=True) as name:
        hook, rooms = Path(name) / "hook.py", tuple(f"{room}/" for room in ROOMS)
        hook.write_text(HOOK.format(clone=str(CLONE), folder=name, rooms=rooms))
        pth.write_text(f"import os; path = {str(hook)!r}; os.path.exists(path) and exec(open(path).read(), {{}})\n")
        try:
            yield Path(name)
        finally:
            pth.unlink()


@contextmanager
def serve(pages: dict[str, str]) -> Generator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

    with tempfile.TemporaryDirectory() as folder:
        for name, text in pages.items():
            (Path(folder) / name).write_text(text)
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder)) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            try:
                yield f"http://127.0.0.1:{server.server_port}/index.html"
            finally:
                server.shutdown()


def report(title: str, folder: Path, pattern: str) -> None:
    files = list(folder.glob(pattern))
    modules = sorted({line for file in files for line in file.read_text().splitlines()})
    print(f"{title}: {len(modules)} modules in {len(files)} processes")
    for room in ROOMS:
        found = [module.removeprefix(f"{room}/") for module in modules if module.startswith(f"{room}/")]
        if found:
            print(f"  {room} {len(found)}: {', '.join(found)}")


if __name__ == "__main__":
    main()
