"""Parts of ranges as files in one folder, so that reading that was interrupted goes on where it stopped.

A file is named by a hash of the server, the tenant and the question, written beside its place and renamed. What cannot
be read is as if it were not there. Names of namespaces and pods stand in the files: the folder is the user's.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from cotenant.drivers.prometheus.ranges import RangePart
from cotenant.model.errors import InvalidInput

_FORM = 1  # of the files


class PartFiles:
    """A `PartStore` in a folder."""

    def __init__(self, folder: Path, url: str, headers: Mapping[str, str]) -> None:
        """The folder is made; raises `InvalidInput` where it cannot be."""
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise InvalidInput("--resume", str(folder), "a folder", error.strerror or str(error)) from error
        self._folder = folder
        self._of = f"{_FORM} {url} {sorted(headers.items())}"

    def get(self, key: tuple[str, float, float, int]) -> RangePart | None:
        """See `PartStore`."""
        try:
            with np.load(self._path(key), allow_pickle=False) as kept:
                names, values = json.loads(bytes(kept["names"])), kept["values"]
        except (OSError, ValueError, KeyError, BadZipFile, EOFError):
            return None
        is_whole = values.dtype == np.float32 and values.shape == (len(names), key[3])
        return RangePart(tuple(str(name) for name in names), values) if is_whole else None

    def put(self, key: tuple[str, float, float, int], part: RangePart) -> None:
        """See `PartStore`. A full disk loses nothing but the shortcut."""
        path = self._path(key)
        beside = path.with_suffix(f".{os.getpid()}.tmp")
        names = np.frombuffer(json.dumps(part.names).encode(), np.uint8)
        try:
            with beside.open("wb") as file:
                np.savez_compressed(file, names=names, values=part.values)
            beside.replace(path)
        except OSError:
            beside.unlink(missing_ok=True)

    def _path(self, key: tuple[str, float, float, int]) -> Path:
        return self._folder / f"{sha256(f'{self._of} {key}'.encode()).hexdigest()[:32]}.npz"
