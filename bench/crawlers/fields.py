"""What every contender does: the links that are followed, the fields that are taken, the requests in flight."""

CONCURRENCY = 16
# Links inside the documentation are relative; the others have a scheme.
LINKS = "a[href]:not([href*='://']):not([href^='mailto:'])"
FIELDS = {
    "title": "title",
    "heading": "h1, h2",
    "paragraph": "p",
    "next": "a[accesskey=n]",
    "up": "a[accesskey=u]",
}
