"""The bill of materials, made of a small image: a Debian package, a Python distribution and a jar."""

from __future__ import annotations

import json
import subprocess
import zipfile
from pathlib import Path

BILL = Path(__file__).parents[2] / "deploy/docker/bill"
STATUS = """\
Package: tini
Status: install ok installed
Architecture: amd64
Version: 0.19.0-1

"""


def test_the_bill_has_debian_packages_python_distributions_and_jars(tmp_path: Path) -> None:
    root = tmp_path / "root"
    site = root / "usr/local/lib/python3.11/dist-packages"
    for folder in ("etc", "var/lib/dpkg", "opt/spindle/jars", site / "crawler-1.2.dist-info"):
        (root / folder).mkdir(parents=True)
    (root / "etc/os-release").write_text('ID=debian\nVERSION_ID="12"\n')
    (root / "var/lib/dpkg/status").write_text(STATUS)
    (site / "crawler-1.2.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: crawler\nVersion: 1.2\n")
    with zipfile.ZipFile(root / "opt/spindle/jars/delta-3.3.jar", "w") as jar:
        jar.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\n")
        jar.writestr(
            "META-INF/maven/io.delta/delta/pom.properties", "groupId=io.delta\nartifactId=delta\nversion=3.3\n"
        )
    (root / "requirements.txt").write_text("never-installed==1\n")

    subprocess.run([BILL, root, tmp_path / "bill.json"], check=True)

    bill = json.loads((tmp_path / "bill.json").read_text())
    assert (bill["bomFormat"], bill["metadata"]["component"]["name"]) == ("CycloneDX", "spindle")
    packages = {each["purl"].partition("?")[0] for each in bill["components"] if "purl" in each}
    assert packages == {"pkg:deb/debian/tini@0.19.0-1", "pkg:pypi/crawler@1.2", "pkg:maven/io.delta/delta@3.3"}
