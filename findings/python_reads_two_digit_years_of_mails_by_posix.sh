#!/usr/bin/env bash
# Python's email.utils reads years of two digits by POSIX's rule, and hours of a zone that it does not know as UTC.
#
# One would guess that `02 Oct 55 08:00:00 GMT` is in 1955, since RFC 5322 (4.3) adds 1900 to 50 and above: it is in 2055,
# for the years up to 68. One would guess that an unknown zone makes a date that says so: `CET` gives a time without a
# zone, which stands for UTC, an hour late. Feeds have both.
set -eu
python3 - <<'PYTHON'
import sys
from email.utils import parsedate_to_datetime

print("python", sys.version.split()[0])
years = {year: parsedate_to_datetime(f"02 Oct {year} 08:00:00 GMT").year for year in ("49", "50", "55", "68", "69")}
zone = parsedate_to_datetime("Wed, 02 Oct 2002 08:00:00 CET")
print("years:", years)
print("CET:  ", zone.isoformat())
assert years == {"49": 2049, "50": 2050, "55": 2055, "68": 2068, "69": 1969}, "the behaviour has changed"
assert zone.isoformat() == "2002-10-02T08:00:00", "the behaviour has changed"
PYTHON
