#!/usr/bin/env bash
# Protego ends a group of user agents at a Crawl-delay, and takes all escaped bytes that are not UTF-8 for equal.
#
# One would guess that a Crawl-delay between two lines of user agents does not part them: RFC 9309, section 2.2.4, says
# that other lines must not interfere with groups. The rules after it are not those of the first crawler, which so may
# fetch what the site forbids. One would guess that `Disallow: /caf%E9` forbids `/caf%E9` and not `/caf%E8`: both are
# decoded to the same replacement character, and so it forbids both.
set -eu
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q protego==0.7.0
"$folder/venv/bin/python" - <<'PYTHON'
from importlib.metadata import version

from protego import Protego

print("protego", version("protego"))
group = "User-agent: first\nCrawl-delay: 2\nUser-agent: second\nDisallow: /private\n"
rules = Protego.parse(group)
allowed = {name: rules.can_fetch("https://shop.test/private", name) for name in ("first", "second")}
print("may fetch /private:", allowed)
latin = Protego.parse("User-agent: *\nDisallow: /caf%E9")
found = {path: latin.can_fetch(f"https://shop.test{path}", "first") for path in ("/caf%E9", "/caf%E8", "/cafe")}
print("Disallow: /caf%E9, may fetch:", found)
assert allowed == {"first": True, "second": False}, "the behaviour has changed"
assert found == {"/caf%E9": False, "/caf%E8": False, "/cafe": True}, "the behaviour has changed"
PYTHON
