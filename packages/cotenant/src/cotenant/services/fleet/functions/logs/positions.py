"""Where reading of each file goes on after a restart, in one file of the agent's folder."""

from __future__ import annotations

import logging
from pathlib import Path

import msgspec

from cotenant.drivers.http.private_files import write_private
from cotenant.model.fleet.logs import LogPlace

_log = logging.getLogger(__name__)


class Positions:
    """By a log's key. A damaged file is put aside: what is in the runtime's files is then read anew."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._stored: dict[str, LogPlace] = {}
        try:
            self._stored = msgspec.json.decode(file.read_bytes(), type=dict[str, LogPlace])
        except FileNotFoundError:
            pass
        except (msgspec.DecodeError, OSError) as error:
            _log.warning("%s is damaged, and logs are read anew: %s", file, error)

    def get(self, key: str) -> LogPlace | None:
        """Where to go on."""
        return self._stored.get(key)

    def store(self, places: dict[str, LogPlace]) -> None:
        """Write all, where any has changed. Raises `OSError`."""
        if places != self._stored:
            write_private(self._file, msgspec.json.encode(places).decode())
            self._stored = places
