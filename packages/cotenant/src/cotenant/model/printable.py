"""Text for one line of a terminal, a log or an error.

Names of cgroups and values from users may hold any characters: a line break forges a second log line, an escape
sequence drives the terminal, and a lone surrogate cannot be encoded. Unprintable characters are escaped as in a Python
string.
Limits: the escaped form is to be read, not parsed.
"""

from __future__ import annotations


def printable(text: str) -> str:
    """The text with its unprintable characters escaped."""
    if text.isprintable():
        return text
    return "".join(name if name.isprintable() else name.encode("unicode_escape").decode() for name in text)
