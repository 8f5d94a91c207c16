"""XPaths of what feeds name, by feedparser's own names for them; also imported by the peers, without the product."""

from __future__ import annotations

import ast
from typing import NamedTuple


class Field(NamedTuple):
    """Where a value stands; the first match counts. A link is the attribute href, or else the text."""

    xpath: str
    is_link: bool = False


_FEED = "(/*[local-name()='feed'] | /*[local-name()='channel'] | /*/*[local-name()='channel'])[1]"
_ENTRY = "(//*[local-name()='item' or local-name()='entry'])[1]"


def _child(*names: str) -> str:
    """Return the step to children of these names in their parent's namespace, or in one of the usual modules'."""
    named = " or ".join(f"local-name()='{name}'" for name in names)
    modules = "starts-with(namespace-uri(), 'http://purl.org/') or contains(namespace-uri(), 'itunes')"
    return f"*[({named}) and (namespace-uri()=namespace-uri(..) or {modules})]"


def _list_fields(base: str, of: str) -> dict[str, Field]:
    def texts(*names: str) -> Field:
        return Field(f"{base}/{_child(*names)}")

    link = _child("link")
    fields = {
        "title": texts("title"),
        "link": Field(f"{base}/{link}[not(@rel) or @rel='alternate']", True),
        "links.0.href": Field(f"{base}/{link}", True),
        "links.0.rel": Field(f"{base}/{link}/@rel"),
        "links.0.type": Field(f"{base}/{link}/@type"),
        "links.0.title": Field(f"{base}/{link}/@title"),
        "id": Field(f"{base}/{_child('id', 'guid')} | {base}/@*[local-name()='about']"),
        "guid": texts("id", "guid"),
        "rights": texts("rights", "copyright"),
        "copyright": texts("rights", "copyright"),
        "generator": texts("generator"),
        "language": texts("language"),
        "comments": texts("comments"),
        "published": texts("published", "pubDate", "issued"),
        "updated": texts("updated", "lastBuildDate", "modified", "date"),
        "created": texts("created"),
        "author_detail.name": Field(f"{base}/{_child('author')}/{_child('name')}"),
        "author_detail.email": Field(f"{base}/{_child('author')}/{_child('email')}"),
        "contributors.0.name": Field(f"{base}/{_child('contributor')}[1]/{_child('name')}"),
        "contributors.0.email": Field(f"{base}/{_child('contributor')}[1]/{_child('email')}"),
        "image.href": Field(f"{base}/{_child('image')}/{_child('url')} | {base}/{_child('image')}/@href"),
        "image.title": Field(f"{base}/{_child('image')}/{_child('title')}"),
        "image.link": Field(f"{base}/{_child('image')}/{link}"),
        "source.title": Field(f"{base}/{_child('source')}/{_child('title')}"),
        "source.id": Field(f"{base}/{_child('source')}/{_child('id')}"),
        "source.subtitle": Field(f"{base}/{_child('source')}/{_child('subtitle')}"),
        "source.rights": Field(f"{base}/{_child('source')}/{_child('rights')}"),
        "enclosures.0.url": Field(f"{base}/{_child('enclosure')}/@url | {base}/{link}[@rel='enclosure']/@href"),
        "enclosures.0.href": Field(f"{base}/{_child('enclosure')}/@url | {base}/{link}[@rel='enclosure']/@href"),
        "enclosures.0.length": Field(f"{base}/{_child('enclosure')}/@length | {base}/{link}[@rel='enclosure']/@length"),
        "enclosures.0.type": Field(f"{base}/{_child('enclosure')}/@type | {base}/{link}[@rel='enclosure']/@type"),
        "media_thumbnail.0.url": Field(f"{base}//*[local-name()='thumbnail']/@url"),
        "info": texts("info"),
    }
    if of == "feed":
        fields["subtitle"] = fields["tagline"] = fields["description"] = texts(
            "subtitle", "tagline", "description", "summary"
        )
    else:
        fields["summary"] = fields["description"] = texts("summary", "description")
        fields["content.0.value"] = texts("content", "encoded")
    details = {
        f"{name}_detail.value": fields[name]
        for name in ("title", "subtitle", "summary", "rights", "info")
        if name in fields
    }
    return {f"{of}.{name}": field for name, field in {**fields, **details}.items()}


FIELDS = {**_list_fields(_FEED, "feed"), **_list_fields(_ENTRY, "entries.0")}


def find_path(expression: ast.expr) -> str:
    """Return `entries[0]['title']` as entries.0.title; empty for other expressions."""
    match expression:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=of, attr=name):
            return f"{find_path(of)}.{name}"
        case ast.Subscript(value=of, slice=ast.Constant(value=name)):
            return f"{find_path(of)}.{name}"
        case _:
            return ""
