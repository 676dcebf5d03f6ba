"""Which test files could notice a change, from the imports alone: the nearest first.

A recording of which test reaches which line costs a run of the whole suite; most mistakes are noticed by the first few
files that import the module. A file is as far as the number of imports between it and the module. A command that is
imported when it runs (a text `module:name`, as of the packages' entry points) counts as imported; what a test starts as
a process, or names in another text, is not seen.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.distribution import LONGEST, unit

from cotenant.model.compiled_sources import imports
from tools.tree import PACKAGES, ROOT

_TESTS = ("tests", *(str(folder.relative_to(ROOT).parents[1] / "tests") for folder in PACKAGES.values()))

_LATER = re.compile(rb'"([\w.]+):\w+"')
_COMMANDS = "cotenant.cli"

_REAL = tuple(f"tests/{folder}/" for folder in ("browser", "e2e", "node"))
_SERVERS = tuple(f"tests/{folder}/" for folder in ("fleet", "kube"))


def import_graph(root: Path) -> Mapping[str, frozenset[str]]:
    """Of each file of the packages and the tests, by its path below `root`: the files that import it. A test's
    conftest files count as imported by it.
    """
    sources = {folder.parent.relative_to(ROOT) for folder in PACKAGES.values()}
    modules: dict[str, str] = {}
    for folder in sorted(sources):
        modules |= {_module(path.relative_to(root / folder)): _below(path, root) for path in _files(root / folder)}
    for place in _TESTS:
        modules |= {
            _module(path.relative_to((root / place).parent)): _below(path, root) for path in _files(root / place)
        }
    found: defaultdict[str, set[str]] = defaultdict(set)
    for file in modules.values():
        source = (root / file).read_bytes()
        for name in (*imports(source), *_named(source, modules)):
            while name and name not in modules:
                name = name.rpartition(".")[0]
            if name and modules[name] != file:
                found[modules[name]].add(file)
    _add_conftests(found, sorted(modules.values()))
    return {file: frozenset(by) for file, by in found.items()}


def nearest_files(graph: Mapping[str, frozenset[str]], file: str) -> list[str]:
    """The test files that come to import a file (below the root), the nearest first: those that are named after it,
    then by distance, where each part of a test's folder that is one of the file's folders counts as one import less.
    """
    distances = {file: 0}
    waiting = deque([file])
    while waiting:
        current = waiting.popleft()
        for by in graph.get(current, ()):
            if by not in distances:
                distances[by] = distances[current] + 1
                waiting.append(by)
    tests = [path for path in distances if Path(path).name.startswith("test_")]
    return sorted(tests, key=lambda path: _farness(file, path, distances[path]))


def has_slow_cases(root: Path, test: str) -> bool:
    """Whether a file has slow cases, or properties with more cases than the fast tests try. Those of whole clusters and
    real nodes take minutes; of those with a server, only units that `tests/distribution.py` does not list as long.
    """
    if test.startswith(_REAL) or (test.startswith(_SERVERS) and unit(test) in LONGEST):
        return False
    text = (root / test).read_text()
    return "pytest.mark.slow" in text or "@given" in text


def stages(tests: Sequence[str], sizes: Sequence[int]) -> list[list[str]]:
    """Divided into runs of so many files each; what is beyond them is left out."""
    found, begin = [], 0
    for size in sizes:
        if tests[begin : begin + size]:
            found.append(list(tests[begin : begin + size]))
        begin += size
    return found


def _farness(file: str, test: str, distance: int) -> tuple[bool, int, str]:
    folder = Path(file).parent.parts
    _, _, below = Path(test).parent.as_posix().partition("tests/")
    _, *parts = Path(below).parts or ("",)  # the first says which sort of test it is
    alike = sum(part in folder for part in parts)
    is_named = Path(test).stem in (f"test_{Path(file).stem}", f"test_{folder[-1]}")
    is_beside = alike == len(parts) or test.startswith("tests/property/")
    return not (is_named and is_beside), distance - alike, test


def _named(source: bytes, modules: Mapping[str, str]) -> set[str]:
    """Modules of commands that are imported later, by their whole names or as `cotenant.cli` names its own."""
    found = {match.decode() for match in _LATER.findall(source)}
    return (found | {f"{_COMMANDS}.{name}" for name in found}) & set(modules)


def _add_conftests(found: Mapping[str, set[str]], files: Sequence[str]) -> None:
    conftests = [file for file in files if Path(file).name == "conftest.py"]
    for conftest in conftests:
        folder = f"{Path(conftest).parent.as_posix()}/"
        for file in files:
            if file.startswith(folder) and Path(file).name.startswith("test_"):
                found[conftest].add(file)


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.py") if "node_modules" not in path.parts)


def _module(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _below(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix()
