"""nginx on loopback, on the first core alone unless told otherwise: what is measured has the other one to itself."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from bench.service import free_port

CONFIGURATION = """\
daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/error.log;
events {{ worker_connections 512; }}
http {{
  access_log off; sendfile on; tcp_nopush on; open_file_cache max=500;
  types {{ text/html html; text/css css; image/svg+xml svg; }} keepalive_requests 100000;
  client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
  uwsgi_temp_path {folder}; scgi_temp_path {folder};
  server {{ listen 127.0.0.1:{port}; root {root}; {rules} }}
}}
"""


def install(*packages: str) -> None:
    """Installs nginx and Debian's `packages` with apt, where nginx is missing."""
    if not shutil.which("nginx", path="/usr/sbin:/usr/bin"):
        packages = ("nginx-light", *packages)
    if packages:
        as_root = [] if os.geteuid() == 0 else ["sudo"]
        subprocess.run([*as_root, "apt-get", "install", "-y", "-qq", *packages], check=True)


@contextmanager
def nginx(root: Path, rules: str = "", cores: str = "0") -> Generator[str]:
    """Serves `root`, with more `rules` in nginx's own words; yields the site's address."""
    with tempfile.TemporaryDirectory() as folder:
        port, configuration = free_port(), Path(folder) / "nginx.conf"
        configuration.write_text(CONFIGURATION.format(folder=folder, port=port, root=root, rules=rules))
        command = ["taskset", "-c", cores, "/usr/sbin/nginx", "-c", configuration, "-e", f"{folder}/log"]
        process = subprocess.Popen(command)
        time.sleep(1)
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(30)


def cpu_seconds() -> float:
    """What the nginx servers that this process has running have used so far."""
    masters = [child for child in _children(os.getpid()) if Path(f"/proc/{child}/comm").read_text() == "nginx\n"]
    return sum(_used(process) for master in masters for process in (master, *_children(master)))


def _children(process: int) -> list[int]:
    threads = Path(f"/proc/{process}/task").iterdir()
    return [int(child) for thread in threads for child in (thread / "children").read_text().split()]


def _used(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(int(ticks) for ticks in fields[11:13]) / os.sysconf("SC_CLK_TCK")
