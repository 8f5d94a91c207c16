"""Images for tests: photographs of imaginary products, told apart by a seed."""

from __future__ import annotations

import io
import random

from PIL import Image, ImageDraw

SVG = b'<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'


def draw_product(seed: int, size: tuple[int, int] = (400, 300)) -> Image.Image:
    """Return a picture of shapes that the seed decides."""
    random_ = random.Random(seed)
    image = Image.new("RGB", (400, 300), "white")
    draw = ImageDraw.Draw(image)
    for _ in range(12):
        left, top = random_.randrange(360), random_.randrange(260)
        box = (left, top, left + random_.randrange(30, 160), top + random_.randrange(30, 160))
        draw.ellipse(box, fill=(random_.randrange(256), random_.randrange(256), random_.randrange(256)))
    return image.resize(size)


def encode_image(image: Image.Image, format_: str = "JPEG", **options: int) -> bytes:
    """Return the bytes of an image file."""
    stored = io.BytesIO()
    image.save(stored, format_, **options)
    return stored.getvalue()


def make_photo(seed: int, format_: str = "JPEG", size: tuple[int, int] = (400, 300), **options: int) -> bytes:
    """Return the file of a product's picture."""
    return encode_image(draw_product(seed, size), format_, **options)
