"""Frames of a page, as the protocol of the browser's tools names them."""

from __future__ import annotations

from typing import Any

from playwright.async_api import CDPSession, Frame
from playwright.async_api import Error as PlaywrightError


async def find_target(frame: Frame, devtools: CDPSession) -> tuple[CDPSession, str] | None:
    """Return the session and the id of a frame of the page that `devtools` is for; None for a frame that was removed.

    A frame of another site has its own process and its own session.
    """
    path: list[Frame] = []
    while frame.parent_frame:
        try:
            session = await frame.page.context.new_cdp_session(frame)
        except PlaywrightError:  # it is in the process of its parent
            path.append(frame)
            frame = frame.parent_frame
        else:
            break
    else:
        session = devtools
    tree: Any = (await session.send("Page.getFrameTree"))["frameTree"]
    for inner in reversed(path):
        tree = _find_child(tree, inner)
        if tree is None:
            return None
    return session, tree["frame"]["id"]


def _find_child(tree: dict[str, Any], frame: Frame) -> dict[str, Any] | None:
    """Return the child of a tree for a frame: of those with its name and address, the one at its place."""
    siblings = frame.parent_frame.child_frames if frame.parent_frame else []
    alike = [each for each in siblings if (each.name, each.url) == (frame.name, frame.url)]
    children = [each for each in tree.get("childFrames", ()) if _describe(each["frame"]) == (frame.name, frame.url)]
    place = alike.index(frame) if frame in alike else len(children)
    return children[place] if place < len(children) else None


def _describe(frame: dict[str, Any]) -> tuple[str, str]:
    return frame.get("name", ""), frame["url"] + frame.get("urlFragment", "")
