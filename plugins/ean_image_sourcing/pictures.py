"""Images from the web: decoded within limits, hashed by their appearance, and as thumbnails."""

from __future__ import annotations

import io
import threading
from dataclasses import dataclass

from PIL import Image, ImageOps

FORMATS = {"JPEG": "image/jpeg", "PNG": "image/png", "GIF": "image/gif", "WEBP": "image/webp", "BMP": "image/bmp"}
HASH_BITS = 128
_SIDE = 8
_MOST_PIXELS = 25_000_000
_LONGEST_SIDE = 10_000
_THUMBNAIL_SIDE = 160
_FLAT_RANGE = 8  # of 256 shades, which the noise of compression has
_decoding = threading.Lock()  # so that a task has the pixels of one image in memory


class PictureRefused(Exception):
    """The bytes are no image that is decoded; the message says why."""


@dataclass(frozen=True, slots=True)
class Picture:
    """An image: its size, media type, perceptual hash and thumbnail; `hash` is None for one of a single shade."""

    width: int
    height: int
    content_type: str
    hash: int | None
    thumbnail: bytes


def read_picture(body: bytes) -> Picture:
    """Decode an image; raise PictureRefused for other content, a damaged image, or too many pixels."""
    if body.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"<":
        raise PictureRefused("it is HTML, SVG or XML and no image of pixels")
    with _decoding:
        try:
            return _decode(body)
        except (Image.DecompressionBombWarning, Image.DecompressionBombError):
            raise PictureRefused(f"it has more than {_MOST_PIXELS:,} pixels") from None
        except (OSError, ValueError, SyntaxError, EOFError, IndexError, ArithmeticError, MemoryError) as error:
            # all of which Pillow's decoders raise for damaged files
            raise PictureRefused("it is damaged, or no JPEG, PNG, GIF, WebP or BMP") from error


def _decode(body: bytes) -> Picture:
    with Image.open(io.BytesIO(body), formats=tuple(FORMATS)) as image:
        width, height = image.size
        if width * height > _MOST_PIXELS or max(width, height) > _LONGEST_SIDE:
            raise PictureRefused(f"it has {width:,} x {height:,} pixels, and {_MOST_PIXELS:,} are the most")
        content_type = FORMATS[image.format or ""]
        image.draft("RGB", (2 * _THUMBNAIL_SIDE, 2 * _THUMBNAIL_SIDE))  # a JPEG is decoded smaller, and faster
        visible = ImageOps.exif_transpose(image)
        if visible.has_transparency_data:
            layer = visible.convert("RGBA")
            visible = Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer)
        thumbnail = visible.convert("RGB")
    thumbnail.thumbnail((_THUMBNAIL_SIDE, _THUMBNAIL_SIDE))
    stored = io.BytesIO()
    thumbnail.save(stored, "PNG")
    return Picture(width, height, content_type, hash_appearance(thumbnail), stored.getvalue())


def hash_appearance(image: Image.Image) -> int | None:
    """Return the difference hash of an image in both directions; None for an image of a single shade.

    A bit says whether a cell of a grid is brighter than its neighbour, so size, compression and brightness hardly
    change it.
    """
    grey = image.convert("L")
    darkest, brightest = grey.getextrema()
    if brightest - darkest <= _FLAT_RANGE:  # pyright: ignore[reportOperatorIssue]
        return None
    wide = grey.resize((_SIDE + 1, _SIDE), Image.Resampling.BOX).tobytes()
    tall = grey.resize((_SIDE, _SIDE + 1), Image.Resampling.BOX).tobytes()
    bits = 0
    for row in range(_SIDE):
        for column in range(_SIDE):
            place = row * (_SIDE + 1) + column
            below = row * _SIDE + column
            bits = bits << 2 | (wide[place] < wide[place + 1]) << 1 | (tall[below] < tall[below + _SIDE])
    return bits
