"""Why the product answers otherwise than a suite expects, where that is on purpose; cases by how their names begin."""

from __future__ import annotations

_SVG = "feedparser writes embedded XML anew; the text is as the feed has it"
_REQUEST = "cache directives of a request: a pipeline says `cache: 0` instead"
_GUESS = (
    "a lifetime guessed from Last-Modified: without a lifetime a page is asked for again, or kept for `cache` seconds"
)
_METHOD = "only for GET: HEAD is never sent, and other methods carry no validators of their own"
_REDIRECT = "a redirect is not kept for itself, but within the page it leads to"
_OTHER_HEADERS = "a request with other headers is another page, whatever Vary says: it is asked for once more"
_ENCODINGS = "Python has no codec for it; the page is read by detection, and the run says so"
_C1 = "a control character by XML 1.0; feedparser takes it for windows-1252"
_MARKUP = "elements in place of text: their text; `method: html` gives the markup"
_CLEANED = "feedparser cleans HTML; the text is as the feed has it"
_DEFAULT = "a default that the feed does not state"
_MAPPED = "feedparser maps one field to another; the path names the field itself"

_REASONS: dict[str, dict[str, tuple[str, ...]]] = {
    "encodings of XML": {
        _C1: ("demoronize",),
        _ENCODINGS: ("x80_ms-cyrl", "x80_tcvn", "x80_viscii"),
    },
    "entities in feeds": {
        "HTML 5's character; feedparser has HTML 4's": ("lang.", "rang."),
        "white space is collapsed, and soft hyphens are left out, as in jsoup": ("160.", "nbsp.", "shy."),
    },
    "well-formed feeds": {
        _MARKUP: (
            *(f"atom/{each}_naked_markup" for each in ("entry_summary", "entry_title", "feed_copyright", "feed_info")),
            *("atom/feed_tagline_naked", "atom/feed_title_naked", "rss/channel_description_naked"),
            "rss/item_description_naked",
        ),
        _DEFAULT: ("atom10/entry_link_no_rel", "atom10/feed_link_no_rel", "atom10/feed_link_rel_self_default"),
        _CLEANED: (
            *("atom10/missing_quote", "atom10/qna", "atom10/tag_in_attr", "rss/item_description_br"),
            "rss/item_description_not_a_doctype",
        ),
        _SVG: ("namespace/",),
        "Content-Location is no base of links (RFC 9110, 8.7)": ("base/http_",),
        _MAPPED: ("itunes/", "media-rss/", "rss/item_"),
    },
    "prices": {"free is no number": ("1 46", "3 124")},
    "robots by Protego": {
        "a name has no wildcards (RFC 9309, 2.2.1)": ("test_protego.py::TestProtego::test_generosity",)
    },
    "robots by RFC 9309": {
        "a User-Agent names the crawler by its first product, Foo": (
            "test_google_only_system.py::TestGoogleOnlySystem",
        )
    },
    "HTTP cache": {
        _REDIRECT: (
            "responseCachingByResponseCode (14)",
            "responseCachingByResponseCode (18)",
            "cacheable 303",
            "when expires is present",
        ),
        "a failure of the server is not remembered": ("responseCachingByResponseCode (40)",),
        _GUESS: ("defaultExpirationDate", "cache old files", "cache immutable files", "cacheable 301"),
        _REQUEST: ("clientSideNoStore", "request", "No store kills cache", "not when no-cache requesting"),
        _METHOD: (
            *(
                "POST cacheable",
                "ok if method changes to HEAD",
                "skips weak",
                "should not send the Last-Modified value",
            ),
            "when methods match HEAD",
        ),
        "a pipeline's own validators go with its request": ("merges",),
        _OTHER_HEADERS: ("Irrelevant headers",),
    },
}


def find_reason(suite: str, case: str) -> str | None:
    for reason, names in _REASONS.get(suite, {}).items():
        if case.startswith(names):
            return reason
    return None
