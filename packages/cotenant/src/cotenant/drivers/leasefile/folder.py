"""The folder of the state file: whoever can write there decides what a privileged keeper writes into knobs at its next
start.

An original value in the state file is restored without further checks, so a file that another user could have written
or replaced is a way to any knob. The folder and all above it belong to root or to this user, and no other may write
them (a sticky folder such as /tmp may be above); so does the file.
Limits: access control lists are not read; a parent that is changed later is not noticed until the next start.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from cotenant.model.errors import InvalidInput

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def own_folder(folder: Path) -> None:
    """Create the folder if absent, and check it. Raises `OSError`, or `InvalidInput` where another user may write
    it or replace it.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    real = folder.resolve()
    _check(real, is_parent=False)
    for above in {*real.parents, *Path(os.path.abspath(folder)).parents}:
        _check(above, is_parent=True)


def check_file(descriptor: int, path: Path) -> None:
    """Check an open file of the folder. Raises `InvalidInput` where another user may write it."""
    _check_mode(os.fstat(descriptor), path)


def _check(folder: Path, *, is_parent: bool) -> None:
    found = folder.stat()
    if is_parent and found.st_mode & stat.S_ISVTX:
        return
    _check_mode(found, folder)


def _check_mode(found: os.stat_result, path: Path) -> None:
    if found.st_uid not in (0, os.geteuid()):
        expected = "root's, or this user's" if os.geteuid() else "root's"
        raise InvalidInput("state folder", str(path), expected, f"it belongs to user {found.st_uid}, who can change it")
    if found.st_mode & _OTHERS_WRITE:
        mode = f"{stat.S_IMODE(found.st_mode):04o}"
        raise InvalidInput("state folder", str(path), "writable by its owner only", f"its mode is {mode}; chmod go-w")
