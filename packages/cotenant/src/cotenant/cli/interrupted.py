"""What Ctrl-C during long work becomes: an exception whose text says how to continue."""

from __future__ import annotations


class Interrupted(Exception):
    """The user interrupted an experiment; the text says what was kept and which command continues it. Exit status
    130.
    """
