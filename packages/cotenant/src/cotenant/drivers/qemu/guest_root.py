"""The root of a guest: a folder with nothing of this host in it but what is named.

A guest's root user reads whatever its root shows, with this host's root as the reader, so the root shows what the
guest's agent needs (an interpreter, its libraries, the packages it imports), busybox, and the paths that a zone names.
The folder is a skeleton: mount points, links as on this host, and files of its own; virtiofsd's mount namespace binds
the paths onto it, read-only (machine.py).
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from cotenant.model.errors import InvalidInput, Unsupported

# mount points of the guest's first root
_FOLDERS = ("proc", "sys", "dev", "run", "tmp", "root", "etc", "var")
_FILES = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\n",
    "etc/group": "root:x:0:\n",
    "etc/hosts": "127.0.0.1 localhost\n",
}
_MAX_LINKS = 40  # as the kernel follows
WHOLE = Path("/")


def build_root(folder: Path, shared: Sequence[Path], files: Sequence[tuple[str, Path]] = ()) -> tuple[Path, ...]:
    """Make the skeleton in an empty folder; the paths to bind onto it, each at its own place. `shared`: of this host;
    `files`: folders made elsewhere that are moved into the root, each with its path in it. Raises `InvalidInput` for
    a path that is not there.
    """
    if WHOLE in shared:
        raise InvalidInput("host_paths", "/", "paths below it", "the whole root needs no skeleton")
    for name in _FOLDERS:
        (folder / name).mkdir()
    (folder / "tmp").chmod(0o1777)
    for name, text in _FILES.items():
        (folder / name).write_text(text)
    binds: list[Path] = []
    for path in sorted({Path(os.path.normpath(path)) for path in shared}, key=lambda path: len(path.parts)):
        real = _follow(folder, path, binds)
        if real == WHOLE:
            raise InvalidInput("host_paths", str(path), "a path below /", "links lead it to the whole root")
        if not any(real.is_relative_to(bind) for bind in binds):
            _mount_point(folder, real)
            binds.append(real)
    _busybox(folder, binds)
    for place, made in files:
        target = folder / place.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        made.rename(target)
    return tuple(binds)


def libraries(programs: Iterable[Path]) -> tuple[Path, ...]:
    """The shared libraries that these programs and libraries of this host load, with the loader. Raises `Unsupported`
    where the host has no `ldd`.
    """
    if shutil.which("ldd") is None:
        raise Unsupported("a guest's root", "ldd (libc-bin), which names the libraries of the interpreter")
    done = subprocess.run(["ldd", *map(str, programs)], capture_output=True, text=True, check=False)
    found = {word for line in done.stdout.splitlines() for word in line.split() if word.startswith("/")}
    # a line of several programs is the program's name with a colon
    return tuple(Path(word) for word in sorted(found) if not word.endswith(":"))


def _follow(folder: Path, path: Path, binds: Sequence[Path]) -> Path:
    """The real path, with the links on the way to it made in the skeleton as they are on this host. Raises
    `InvalidInput`.
    """
    if not path.is_absolute():
        raise InvalidInput("host_paths", str(path), "an absolute path")
    if not path.exists():
        raise InvalidInput("host_paths", str(path), "a path of this host", "it does not exist")
    waiting, real = list(path.parts[1:]), Path("/")
    links = 0
    while waiting:
        part = waiting.pop(0)
        if part in ("", ".", ".."):
            real = real.parent if part == ".." else real
            continue
        here = real / part
        if not here.is_symlink():
            real = here
            continue
        links += 1
        if links > _MAX_LINKS:
            raise InvalidInput("host_paths", str(path), "a path without a loop of links")
        target = os.readlink(here)
        link = folder / here.relative_to("/")
        if not any(here.is_relative_to(bind) for bind in binds) and not os.path.lexists(link):
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(target)
        if target.startswith("/"):
            real = Path("/")
        waiting = [*target.split("/"), *waiting]
    return real


def _mount_point(folder: Path, real: Path) -> None:
    place = folder / real.relative_to("/")
    if real.is_dir():
        place.mkdir(parents=True, exist_ok=True)
    else:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()


def _busybox(folder: Path, binds: Sequence[Path]) -> None:
    """Its commands in /bin, unless this host's are there."""
    real = _follow(folder, Path("/bin"), binds)
    if any(real.is_relative_to(bind) for bind in binds):
        return
    place = folder / real.relative_to("/")
    place.mkdir(parents=True, exist_ok=True)
    program = str(shutil.which("busybox"))
    names = subprocess.run([program, "--list"], capture_output=True, text=True, check=True).stdout.split()
    shutil.copyfile(program, place / "busybox")
    (place / "busybox").chmod(0o755)
    for name in names:
        if not os.path.lexists(place / name):
            (place / name).symlink_to("busybox")
