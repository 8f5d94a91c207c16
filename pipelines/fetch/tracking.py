"""Addresses without the parameters that track a visitor's origin: they lead to the same page."""

from __future__ import annotations

import re
from collections.abc import Collection

# of advertisements, newsletters and analytics, by the documentation of those who add them
_TRACKING = """
    fbclid gclid gclsrc dclid gbraid wbraid gad_source gad_campaignid srsltid msclkid yclid twclid ttclid li_fat_id
    igshid igsh mc_cid mc_eid mkt_tok oly_anon_id oly_enc_id vero_id vero_conv _hsenc _hsmi __hssc __hstc __hsfp
    hsctatracking _openstat wickedid s_cid ef_id epik irclickid rb_clickid sscid zanpid _branch_match_id _bta_c _bta_tid
    _ga _gl _ke ml_subscriber ml_subscriber_hash cmpid
"""
_SESSIONS = frozenset(("jsessionid", "phpsessid", "aspsessionid", "zenid", "oscsid", "cfid"))
_MAYBE_SESSIONS = frozenset(("sessionid", "session_id"))  # also of the sessions of a conference
_TOKEN = re.compile(r"(?!\d+\Z)[\w.%~-]{16,}", re.ASCII)
_NAMES = frozenset(_TRACKING.split()) | _SESSIONS
_FAMILIES = ("utm_", "pk_", "piwik_", "mtm_", "matomo_", "hsa_", "itm_")
_SESSION_PATH = re.compile(r";(?:jsessionid|phpsessid)=[^/?#;]*", re.IGNORECASE)


def strip_tracking(url: str, significant: Collection[str] = ()) -> str:
    """Return a canonical URL without tracking parameters and session ids, but for the `significant` ones."""
    address, mark, query = url.partition("?")
    if ";" in address:
        address = _SESSION_PATH.sub("", address)
    if not mark:
        return address
    kept = [each for each in query.split("&") if not _is_tracking(each, significant)]
    return f"{address}?{'&'.join(kept)}" if kept else address


def _is_tracking(parameter: str, significant: Collection[str]) -> bool:
    name, _, value = parameter.partition("=")
    folded = name.lower()
    if folded in _MAYBE_SESSIONS:
        return name not in significant and _TOKEN.fullmatch(value) is not None
    if not (folded in _NAMES or folded.startswith(_FAMILIES)):
        return False
    return name not in significant
