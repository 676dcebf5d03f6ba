"""URLs that people write, taken apart.

`urllib.parse.urlsplit` takes most text and raises `ValueError` for the rest: a bracket without its other half, and,
only when the port is asked for, a port that is no number. A reader of options and files needs one answer.
"""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import SplitResult, urlsplit

HTTP = ("http", "https")


def split_url(text: str, schemes: Collection[str] = HTTP) -> SplitResult | None:
    """The parts of a URL with one of these schemes, a host and, where it has a port, one that can be connected to; None
    for any other text.
    """
    try:
        parts = urlsplit(text)
        usable = parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return None
    return parts if usable else None
