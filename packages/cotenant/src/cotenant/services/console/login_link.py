"""The link that logs a browser in, for whoever prints one: the console itself, and what starts one as a child."""

from __future__ import annotations

from urllib.parse import quote


def link(url: str, token: str) -> str:
    """The address with which a browser logs in."""
    return f"{url}/login?token={quote(token)}"
