"""The state file of leases: the original value of each knob, on disk before the knob is written.

After kill -9 or with a full disk, every knob must still be restored. One file of JSON lines in a folder of its own
(`lines.py`), appended; a durable write returns after fdatasync, one for a whole batch. It is compacted (written beside,
synced, renamed, folder synced) when it is opened, and when its superseded lines outweigh the live ones, by bytes. The
folder is locked while it is open, and no other user may write it (`folder.py`). A write that fails is truncated away,
so that the file never ends in half a line; lines that only record progress are kept pending and written with the next
call. A file with unreadable lines is kept aside under a name of its own, and the readable leases are returned all the
same. Leases of an earlier boot are not: their groups no longer exist.

Limits: one local file system; on one that does not honour fsync, a crash of the machine may lose lines, but then the
knobs are gone too.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cotenant.drivers.leasefile.folder import check_file, own_folder
from cotenant.drivers.leasefile.lines import VERSION, Content, DropLine, Keep, Opened, encode, read
from cotenant.model.errors import InvalidInput, Permanent, Transient
from cotenant.model.machine.knob import KnobLease, KnobTarget

NAME = "leases.jsonl"
LOCK = "lock"
MAX_ASIDE = 100
SPARE_BYTES = 1 << 18  # of superseded lines that are always tolerated; beyond them, as many as of live ones


@dataclass(frozen=True, slots=True)
class FoundLeases:
    """The contents of the file when it was opened."""

    leases: tuple[KnobLease, ...]  # of this boot
    earlier_boot: int = 0  # leases of an earlier boot, dropped
    faults: tuple[InvalidInput, ...] = ()  # one per line
    aside: Path | None = None  # where the file with faults was kept
    torn: bool = False


class LeaseFile:
    """Opens the file of a folder and holds its lock until `close`.

    Raises `Permanent` where another process has it, `InvalidInput` for a file of another version and for a folder that
    another user may write, `Transient` where the folder cannot be used now.
    """

    def __init__(self, folder: Path, boot_id: str) -> None:
        self._path = folder / NAME
        self._folder = folder
        self._boot_id = boot_id
        self._live: dict[KnobTarget, KnobLease] = {}
        self._pending: dict[KnobTarget, bytes] = {}  # progress lines and drops that could not be written yet
        self._line_bytes: dict[KnobTarget, int] = {}  # of the last line of each live lease
        self._live_bytes = 0  # their sum
        self._size = 0
        self._compact_above = 0  # size at which the next compaction is tried
        self._fd = -1
        self.syncs = 0  # of the file, since it was opened
        try:
            own_folder(folder)
            self._lock = _lock(folder)
        except OSError as error:
            raise Transient(f"{folder}: {error.strerror}") from error
        try:
            self.found = self._take_over()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file and release the lock."""
        for fd in (self._fd, self._lock):
            if fd >= 0:
                os.close(fd)
        self._fd = self._lock = -1

    def keep(self, leases: Sequence[KnobLease], *, durable: bool) -> None:
        """Write these leases.

        `durable`: all of them are on disk on return, or `Transient` is raised and none counts as kept. Else they stay
        pending if they cannot be written now.
        """
        lines = {lease.target: encode(Keep(lease)) for lease in leases}
        try:
            self._append({**self._pending, **lines}, sync=durable)
        except OSError as error:
            if durable:
                raise Transient(f"{self._path}: {error.strerror}") from error
            self._pending.update(lines)
        for lease in leases:
            self._count(lease.target, len(lines[lease.target]))
            self._live[lease.target] = lease
        self._compact_if_large()

    def drop(self, targets: Sequence[KnobTarget]) -> None:
        """Remove leases that are over. Pending if it cannot be written now."""
        lines = {target: encode(DropLine(target)) for target in targets if self._live.pop(target, None) is not None}
        for target in lines:
            self._count(target, 0)
        try:
            self._append({**self._pending, **lines}, sync=False)
        except OSError:
            self._pending.update(lines)
        self._compact_if_large()

    def flush(self) -> bool:
        """Write what is pending. Returns whether nothing is pending any more."""
        with contextlib.suppress(OSError):
            self._append(self._pending, sync=False)
        return not self._pending

    def leases(self) -> tuple[KnobLease, ...]:
        """The leases in the file, or that will be once it can be written."""
        return tuple(self._live.values())

    def _take_over(self) -> FoundLeases:
        try:
            data = _read_own(self._path)
        except FileNotFoundError:
            data = b""
        except OSError as error:
            raise Transient(f"{self._path}: {error.strerror}") from error
        content = read(str(self._path), data)
        aside = self._keep_aside(data) if content.faults else None
        here = content.leases if content.boot in (self._boot_id, None) else ()
        self._live = {lease.target: lease for lease in here}
        try:
            self._compact()
        except OSError as error:
            self._continue_with(content, data, error)
        return FoundLeases(here, len(content.leases) - len(here), content.faults, aside, content.torn)

    def _continue_with(self, content: Content, data: bytes, error: OSError) -> None:
        """No space to compact: continue with the old file if its contents are valid, so that its leases can be
        ended.
        """
        if content.boot != self._boot_id or content.faults:
            raise Transient(f"{self._path}: {error.strerror}") from error
        self._fd = os.open(self._path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        self._size = data.rfind(b"\n") + 1
        os.ftruncate(self._fd, self._size)
        for lease in self._live.values():
            self._count(lease.target, len(encode(Keep(lease))))
        self._compact_above = self._size + SPARE_BYTES

    def _append(self, lines: dict[KnobTarget, bytes], *, sync: bool) -> None:
        data = b"".join(lines.values())
        try:
            at = self._size
            while at - self._size < len(data):
                at += os.pwrite(self._fd, data[at - self._size :], at)
            if sync:
                os.fdatasync(self._fd)
                self.syncs += 1
        except OSError:
            os.ftruncate(self._fd, self._size)
            raise
        self._size += len(data)
        self._pending.clear()

    def _count(self, target: KnobTarget, line_bytes: int) -> None:
        """Note the length of a lease's last line; 0: it is over."""
        self._live_bytes += line_bytes - self._line_bytes.pop(target, 0)
        if line_bytes:
            self._line_bytes[target] = line_bytes

    def _compact_if_large(self) -> None:
        if self._size <= max(2 * self._live_bytes + SPARE_BYTES, self._compact_above):
            return
        try:
            self._compact()
        except OSError:  # no space: tried again after as much as this
            self._compact_above = self._size + SPARE_BYTES

    def _compact(self) -> None:
        beside = self._path.with_suffix(".new")
        first = encode(Opened(VERSION, self._boot_id))
        lines = {target: encode(Keep(lease)) for target, lease in self._live.items()}
        data = first + b"".join(lines.values())
        fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            at = 0
            while at < len(data):
                at += os.pwrite(fd, data[at:], at)
            os.fsync(fd)
            os.rename(beside, self._path)
        except OSError:
            os.close(fd)
            with contextlib.suppress(OSError):
                beside.unlink()
            raise
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self._size, self._compact_above = fd, len(data), 0
        self._line_bytes = {target: len(line) for target, line in lines.items()}
        self._live_bytes = sum(self._line_bytes.values())
        self._pending.clear()
        _sync_folder(self._folder)

    def _keep_aside(self, data: bytes) -> Path:
        for number in range(1, MAX_ASIDE + 1):
            aside = self._path.with_suffix(f".bad-{number}")
            try:
                with aside.open("xb") as out:
                    os.fchmod(out.fileno(), 0o600)
                    out.write(data)
                    out.flush()
                    os.fsync(out.fileno())
            except FileExistsError:
                continue
            except OSError as error:
                with contextlib.suppress(OSError):
                    aside.unlink()
                raise Transient(f"{aside}: {error.strerror}") from error
            _sync_folder(self._folder)
            return aside
        raise Permanent(f"{self._folder} has {MAX_ASIDE} unreadable state files aside; inspect and remove them")


def _read_own(path: Path) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    with open(descriptor, "rb") as file:
        check_file(descriptor, path)
        return file.read()


def read_only(folder: Path) -> Content:
    """The contents of a folder's file now, without taking it over. Raises `Transient`, `InvalidInput`."""
    path = folder / NAME
    try:
        return read(str(path), path.read_bytes())
    except FileNotFoundError:
        return Content(None, ())
    except OSError as error:
        raise Transient(f"{path}: {error.strerror}") from error


def held_by(folder: Path) -> int | None:
    """The pid of the process that has the folder locked; None: no process. 0: pid not known."""
    try:
        fd = os.open(folder / LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        number = os.pread(fd, 32, 0).strip()
        return int(number) if number.isdigit() else 0
    finally:
        os.close(fd)
    return None


def asides(folder: Path) -> tuple[Path, ...]:
    """Unreadable state files that were kept aside and not removed since."""
    return tuple(sorted(folder.glob(Path(NAME).with_suffix(".bad-*").name)))


def _lock(folder: Path) -> int:
    fd = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = os.pread(fd, 32, 0).decode(errors="replace").strip()
        os.close(fd)
        raise Permanent(f"another keeper (process {holder or 'unknown'}) has {folder}") from error
    with contextlib.suppress(OSError):  # informational only; a full disk must not prevent a restore
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
    return fd


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
