"""Which sources decide what the compiled code is: the key of its cache.

Numba's on-disk cache compares only the file in which a function is defined. A constant, a tuple type or an inlined
function imported from another file can change and the stale machine code is still used. Follow the imports. The key
covers every module that compiles something (it imports numba, `njit` or `inlined`) and every module of the packages
that those import, transitively, at module level or inside a function, `TYPE_CHECKING` blocks included. Imports are
found by a pattern rather than by parsing: 100 modules take 20 ms instead of 250 ms at each start; a test compares the
result with the syntax tree.
Limits: modules loaded by a computed name (`import_module`) are not followed; the `__init__` of a package counts only if
a name is imported from it; code outside the packages (scenarios of `COTENANT_SCENARIOS`) is not covered, so numba's own
comparison of the defining file is all it has.

`remembered_key` spares later starts the reading, which is a tenth of a second for two thousand sources: the key is kept
beside the cache with a digest of every source's path, size and times, and made again where one differs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

COMPILER = "model.compiled"  # the module that offers the decorators, relative to the first package
DECORATORS = ("njit", "inlined")

# `from a.b import c, d` (with or without parentheses) and `import a.b, c.d` at the start of a line. Line breaks inside
# parentheses are covered.
_IMPORT = re.compile(
    rb"^[ \t]*(?:from[ \t]+(?P<module>[\w.]+)[ \t]+import[ \t]*(?P<names>\((?:[^)#]|#[^\n]*)*\)|[^\n]*)|import[ "
    rb"\t]+(?P<modules>[^\n]*))",
    re.M,
)
_COMMENT = re.compile(rb"#[^\n]*")
_NAME = re.compile(rb"(?:^|[,(])\s*([\w.]+|\*)")


def imports(source: bytes) -> set[str]:
    """Dotted names that a source imports, `module.name` for `from module import name`. Relative imports are not
    resolved (the project has none).
    """
    found: set[str] = set()
    for match in _IMPORT.finditer(source):
        module = match["module"]
        names = _NAME.findall(_COMMENT.sub(b"", match["names"] if module else match["modules"]))
        found.update((module + b"." + name if module else name).decode() for name in names)
    return found


def read_packages(packages: Iterable[Path]) -> dict[str, bytes]:
    """Every Python source by its path, which begins with the package's name and has `/` on every platform."""
    sources: dict[str, bytes] = {}
    for package in packages:
        top = str(package.parent)
        for folder, folders, files in os.walk(package):
            if "__pycache__" in folders:
                folders.remove("__pycache__")
            for name in files:
                if name.endswith(".py"):
                    path = os.path.join(folder, name)
                    with open(path, "rb") as file:
                        sources[os.path.relpath(path, top).replace(os.sep, "/")] = file.read()
    return sources


def module_path(name: str, sources: Mapping[str, bytes]) -> str | None:
    """The source that provides a dotted name: its module, else the nearest parent that exists; None outside the
    packages.
    """
    parts = name.split(".")
    while parts:
        for candidate in ("/".join(parts) + ".py", "/".join(parts) + "/__init__.py"):
            if candidate in sources:
                return candidate
        parts.pop()
    return None


def compiling(package: str, sources: Mapping[str, bytes]) -> set[str]:
    """The sources that compile something or extend the compiler: they import numba, one of our decorators, or the
    module that defines them.
    """
    compiler = f"{package}.{COMPILER}"
    wanted = {compiler, *(f"{compiler}.{name}" for name in (*DECORATORS, "*"))}
    return {
        path
        for path, source in sources.items()
        if (b"compiled" in source or b"numba" in source)  # spares the pattern for nine files in ten
        and any(name in wanted or name == "numba" or name.startswith("numba.") for name in imports(source))
    }


def with_imports(roots: Iterable[str], sources: Mapping[str, bytes]) -> set[str]:
    """The given sources and all that they import from the packages, transitively."""
    reached: set[str] = set()
    pending = list(roots)
    while pending:
        path = pending.pop()
        if path in reached:
            continue
        reached.add(path)
        pending.extend(found for name in imports(sources[path]) if (found := module_path(name, sources)) is not None)
    return reached


def key_sources(packages: Sequence[Path]) -> dict[str, bytes]:
    """The sources that the key covers, by path. `packages`: folders named like the packages, that of the decorators
    first.
    """
    sources = read_packages(packages)
    return {path: sources[path] for path in sorted(with_imports(compiling(packages[0].name, sources), sources))}


def remembered_key(memory: Path, packages: Sequence[Path], *further: str) -> str:
    """`sources_key`, as a file in the folder `memory` has it if no source is another than when it was written; else it
    is written, where that can be done.
    """
    names = sha256("\n".join((*map(str, packages), *further)).encode()).hexdigest()[:16]
    file, state = memory / f"sources-{names}", _state(packages)
    with suppress(OSError, ValueError):
        known, key = file.read_text().split()
        if known == state:
            return key
    key = sources_key(packages, *further)
    with suppress(OSError):
        memory.mkdir(parents=True, exist_ok=True)
        written = memory / f".{file.name}.{os.getpid()}"
        written.write_text(f"{state} {key}\n")
        written.replace(file)
    return key


def _state(packages: Iterable[Path]) -> str:
    """A digest of what a file system says of the sources. The time of a change cannot be set, so a file that was
    written in place, with another's size and date, is noticed too.
    """
    digest = sha256()
    for path, stat in sorted(_stats(map(str, packages))):
        digest.update(f"{path}:{stat.st_size}:{stat.st_mtime_ns}:{stat.st_ctime_ns}:{stat.st_ino}\n".encode())
    return digest.hexdigest()


def _stats(folders: Iterable[str]) -> Iterator[tuple[str, os.stat_result]]:
    pending = list(folders)
    while pending:
        with suppress(FileNotFoundError, NotADirectoryError), os.scandir(pending.pop()) as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    yield entry.path, entry.stat()
                elif entry.name != "__pycache__" and entry.is_dir():
                    pending.append(entry.path)


def sources_key(packages: Sequence[Path], *further: str) -> str:
    """Sixteen hexadecimal digits over the covered sources and further texts (versions). Independent of where the
    package is installed.
    """
    digest = sha256()
    for text in further:
        digest.update(f"{len(text)}:{text}".encode())
    for path, source in key_sources(packages).items():
        digest.update(f"{path}:{len(source)}:".encode())
        digest.update(source)
    return digest.hexdigest()[:16]
