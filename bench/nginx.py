"""Serves the pages of a benchmark by nginx on loopback, by default on the first core."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import psutil

from bench.service import find_free_port

CONFIGURATION = """\
daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/error.log;
events {{ worker_connections 512; }}
http {{
  access_log off; sendfile on; tcp_nopush on; open_file_cache max=500;
  types {{ text/html html; text/css css; image/svg+xml svg; }} keepalive_requests 100000;
  client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
  uwsgi_temp_path {folder}; scgi_temp_path {folder};
  server {{ listen {address}:{port}; root {root}; {rules} }}
}}
"""


def install_packages(*packages: str) -> None:
    """Install nginx, unless it is installed, and Debian's `packages` with apt."""
    if not shutil.which("nginx", path="/usr/sbin:/usr/bin"):
        packages = ("nginx-light", *packages)
    if packages:
        as_root = [] if os.geteuid() == 0 else ["sudo"]
        subprocess.run([*as_root, "apt-get", "install", "-y", "-qq", *packages], check=True)


@contextmanager
def run_nginx(root: Path, rules: str = "", cores: str = "0", address: str = "127.0.0.1") -> Generator[str]:
    """Serve `root`, with additional `rules` in nginx's syntax; yield the site's URL."""
    with tempfile.TemporaryDirectory() as folder:
        port, configuration = find_free_port(), Path(folder) / "nginx.conf"
        configuration.write_text(
            CONFIGURATION.format(folder=folder, address=address, port=port, root=root, rules=rules)
        )
        command = ["taskset", "-c", cores, "/usr/sbin/nginx", "-c", configuration, "-e", f"{folder}/log"]
        process = subprocess.Popen(command)
        time.sleep(1)
        try:
            yield f"http://{address}:{port}"
        finally:
            process.terminate()
            process.wait(30)


def measure_cpu_seconds() -> float:
    """Return the CPU time of the nginx servers that this process runs."""
    servers = [each for each in psutil.Process().children(recursive=True) if each.name() == "nginx"]
    return sum(times.user + times.system for times in (each.cpu_times() for each in servers))
