"""Following a log file over its rotations, by renaming as by truncating.

What is open is read to its end before the next file of the chain; a file that was renamed is found again by its inode,
one that was copied and truncated by its first bytes. Where neither is there any more, lines may be missing, and the
next piece says so. Compressed files are not read.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

from cotenant.model.fleet.logs import FileIdentity, LogPiece, LogPlace

HEAD_BYTES = 256
_MIN_HEAD = 32  # fewer bytes alone say nothing
PIECE_BYTES = 128 << 10
_NUMBER = re.compile(r"[.-](\d{1,4})")
_DATE = re.compile(r"[.-](\d{8}[0-9T:-]*)")


class Tail:
    """One file and those that it is rotated into.

    `place`: where to go on; `backlog_bytes`: how much before it, or before the end, is read again.
    """

    def __init__(self, path: Path, place: LogPlace | None = None, backlog_bytes: int = 0) -> None:
        self._path = path
        self._place = place
        self._backlog_bytes = backlog_bytes
        self._fd = -1
        self._inode = 0
        self._head = b""
        self._offset = 0
        self._until: tuple[int, int] | None = None  # inode and offset up to which all is old
        self._align = False  # reading begins inside of a record
        self._lost = ""
        self._rotated = False  # seen at the poll before
        self._identity: FileIdentity | None = None

    def close(self) -> None:
        """Close what is open."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def poll(self, max_bytes: int = PIECE_BYTES) -> LogPiece | None:
        """The next piece; None where nothing new is there. Raises `OSError`."""
        if self._fd < 0 and not self._begin():
            return None
        while True:
            if not self._is_same():
                self._truncated()
                continue
            limit = max_bytes
            if self._until is not None and self._until[0] == self._inode:
                limit = min(limit, self._until[1] - self._offset)
                if limit <= 0:
                    self._until = None
                    continue
            data = os.pread(self._fd, limit, self._offset)
            if data and self._is_same():
                return self._piece(data)
            if data or not self._next():
                return self._gap()

    # ---- reading

    def _gap(self) -> LogPiece | None:
        lost, self._lost = self._lost, ""
        return LogPiece(self._file(), self._offset, b"", lost) if lost else None

    def _piece(self, data: bytes) -> LogPiece | None:
        if len(self._head) < HEAD_BYTES and self._offset <= len(self._head):
            self._head = os.pread(self._fd, HEAD_BYTES, 0)[: self._offset + len(data)]
            self._identity = None
        start = self._offset
        self._offset += len(data)
        if self._align:
            cut = data.find(b"\n") + 1
            if not cut:
                return LogPiece(self._file(), self._offset, b"", is_old=self._until is not None)
            self._align = False
            data, start = data[cut:], start + cut
        lost, self._lost = self._lost, ""
        return LogPiece(self._file(), start, data, lost, self._until is not None)

    def _file(self) -> FileIdentity:
        if self._identity is None:
            self._identity = FileIdentity(self._inode, len(self._head), _digest(self._head))
        return self._identity

    def _is_same(self) -> bool:
        """Whether the open file still has what was read of it."""
        if os.fstat(self._fd).st_size < self._offset:
            return False
        return not self._head or os.pread(self._fd, len(self._head), 0) == self._head

    def _truncated(self) -> None:
        """The rest may be in a copy."""
        self._lost = self._lost or "the file was truncated"
        self._until, self._align = None, False
        if len(self._head) >= _MIN_HEAD:
            for path, _ in reversed(self._chain()):
                if path != self._path and _begins_with(path, self._head, self._offset):
                    self._open(path, self._offset)
                    return
        self._offset, self._head, self._identity = 0, b"", None

    # ---- the chain of files

    def _chain(self) -> list[tuple[Path, int]]:
        """The file and what it was rotated into, with inodes, oldest first."""
        name = self._path.name
        found: list[tuple[tuple[int, int, str], Path]] = []
        try:
            names = os.listdir(self._path.parent)
        except OSError:
            return []
        for other in names:
            if other == name:
                found.append(((2, 0, ""), self._path))
            elif other.startswith(name):
                suffix = other[len(name) :]
                number, date = _NUMBER.fullmatch(suffix), _DATE.fullmatch(suffix)
                if number is not None:
                    found.append(((1, -int(number[1]), ""), self._path.with_name(other)))
                elif date is not None:
                    found.append(((0, 0, date[1]), self._path.with_name(other)))
        inodes = [(path, _inode(path)) for _, path in sorted(found)]
        return [(path, inode) for path, inode in inodes if inode]

    def _next(self) -> bool:
        """Go over to the next file, once this one can grow no more."""
        there = _inode(self._path)
        if there in (0, self._inode):
            self._rotated = False
            return False
        if not self._rotated:  # a writer may just be about to change files: the open one is read once more
            self._rotated = True
            return False
        chain = self._chain()
        if chain != self._chain() or not chain:  # renamed at this moment
            return False
        inodes = [inode for _, inode in chain]
        at = 0
        if self._inode in inodes:
            at = inodes.index(self._inode) + 1
        else:
            self._lost, self._until = self._lost or "the file was removed, maybe others with it", None
        return at < len(chain) and self._open(chain[at][0], 0, inodes[at])

    def _begin(self) -> bool:
        chain = self._chain()
        if not chain or chain != self._chain():
            return False
        sizes = [_size(path) for path, _ in chain]
        end = (len(chain) - 1, sizes[-1])
        found = None
        if self._place is not None:
            found, is_exact = self._find_place(self._place, chain)
            if not is_exact:
                self._lost = "the file where reading ended is no longer there"
            end = found
        start, left = end, self._backlog_bytes
        while left > 0 and start != (0, 0):
            at, offset = start
            if offset >= left:
                start, left = (at, offset - left), 0
            elif at == 0:
                start = (0, 0)
            else:
                left -= offset
                start = (at - 1, sizes[at - 1])
        if found is not None and start < found:
            self._until = (chain[found[0]][1], found[1])
        path, inode = chain[start[0]]
        return self._open(path, start[1], inode, align=start != found)

    @staticmethod
    def _find_place(place: LogPlace, chain: list[tuple[Path, int]]) -> tuple[tuple[int, int], bool]:
        """Where in the chain the place is; where it is not there, what is certainly behind it, and False."""
        copy, later = None, (0, 0)
        for at, (path, inode) in enumerate(chain):
            try:
                with path.open("rb") as stream:
                    size = os.fstat(stream.fileno()).st_size
                    head = stream.read(place.file.head_bytes)
            except OSError:
                continue
            if inode == place.file.inode:
                later = (at, 0)  # what it was is gone, and what was rotated before had been read
            if size >= place.offset and _digest(head) == place.file.head_digest:
                if inode == place.file.inode:
                    return (at, place.offset), True
                if place.file.head_bytes >= _MIN_HEAD:
                    copy = (at, place.offset)
        return (copy, True) if copy is not None else (later, False)

    def _open(self, path: Path, offset: int, inode: int = 0, align: bool = False) -> bool:
        """`inode`: the one that is meant; `align`: the offset may be inside of a record."""
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            return False
        found = os.fstat(fd).st_ino
        if inode and found != inode:
            os.close(fd)
            return False
        self.close()
        self._fd, self._inode, self._offset, self._rotated, self._identity = fd, found, offset, False, None
        self._head = os.pread(fd, min(HEAD_BYTES, offset), 0)
        self._align = align and offset > 0 and os.pread(fd, 1, offset - 1) != b"\n"
        return True


def _digest(head: bytes) -> str:
    return hashlib.sha256(head).hexdigest()[:32]


def _begins_with(path: Path, head: bytes, min_bytes: int) -> bool:
    try:
        with path.open("rb") as stream:
            return os.fstat(stream.fileno()).st_size >= min_bytes and stream.read(len(head)) == head
    except OSError:
        return False


def _inode(path: Path) -> int:
    try:
        return os.stat(path).st_ino
    except OSError:
        return 0


def _size(path: Path) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
