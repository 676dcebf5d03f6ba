"""A file of the sessions that a restart of the console does not end.

Whoever restarts `cotenant up` has pages open, and links to them in other places, which all asked to log in again. A
private file of digests of the sessions' cookies with their ends: who reads it cannot make a cookie from it.
Limits: sessions that a Kubernetes token began are not kept, for that token would have to be; a file that cannot be read
or written costs the sessions only, and is logged.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

import msgspec

from cotenant.drivers.http.private_files import write_private

_log = logging.getLogger(__name__)


class KeptSessions:
    """One file: the end of each session, Unix seconds, by the digest of its cookie."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> dict[str, float]:
        """What an earlier process kept; nothing where there is none."""
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, float])
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
            _log.warning("%s cannot be read, viewers have to log in again: %s", self._path, error)
            return {}

    def write(self, ends_s: Mapping[str, float]) -> None:
        """Replace what is kept."""
        try:
            write_private(self._path, msgspec.json.encode(ends_s).decode() + "\n")
        except OSError as error:
            _log.warning("%s cannot be written, sessions end with this process: %s", self._path, error)
