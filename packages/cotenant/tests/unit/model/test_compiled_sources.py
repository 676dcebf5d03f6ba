"""The key of the cache covers exactly what compiled code can depend on."""

import ast
import importlib
import inspect
import os
import shutil
import types
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from numba.core.dispatcher import Dispatcher

from cotenant.model import compiled_sources
from cotenant.model.compiled import cache_directory, packages
from cotenant.model.compiled_sources import (
    compiling,
    imports,
    key_sources,
    module_path,
    read_packages,
    remembered_key,
    sources_key,
    with_imports,
)

PACKAGES = packages()
PACKAGE = PACKAGES[0]
SOURCES = read_packages(PACKAGES)
EVERY = 10  # covered sources are edited in a whole copy; that the key has each of them is said by `key_sources`


def _statements(node: ast.AST) -> Iterator[ast.stmt]:
    """Those of a syntax tree: imports are among them, and most of a tree is expressions."""
    for body in ("body", "orelse", "finalbody", "handlers", "cases"):
        for below in getattr(node, body, ()):
            if isinstance(below, ast.stmt):
                yield below
            yield from _statements(below)


def _imports_by_syntax(source: bytes) -> set[str]:
    found = set()
    for node in _statements(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports are not resolved"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


@pytest.mark.slow
def test_the_pattern_finds_the_imports_of_the_syntax_tree():
    for path, source in SOURCES.items():
        missed = _imports_by_syntax(source) - imports(source)
        assert not missed, f"{path}: {missed}"


def test_forms_of_import():
    source = b"""
from a.b import c
from a.b import d as e, f  # g
from a import (
    h,  # a note (with parentheses, and a comma)
    i as j,
)
import k, l.m as n
from o import *
def late():
    from p import q
if TYPE_CHECKING:
    from r import s
"""
    assert imports(source) == _imports_by_syntax(source)


def _package(folder: Path, **modules: str) -> Path:
    root = folder / "pack"
    for name, text in {"__init__": "", "model__compiled": "import numba", **modules}.items():
        path = root / f"{name.replace('__', '/') if name != '__init__' else name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_modules_that_compile_and_what_they_import_are_covered(tmp_path):
    root = _package(
        tmp_path,
        kernel="from pack.model.compiled import njit\nfrom pack.shapes import SIZE",
        kernel_by_module="from pack.model import compiled",
        extension="import numba.extending",
        shapes="from pack.widths import W",
        widths="W = 1",
        late="from pack.model.compiled import inlined\ndef f():\n    from pack.room import g",
        room__g="",
        caller="from pack.kernel import run",
        folder_only="from pack.model.compiled import cache_directory",
        mentions='"""This text says numba, njit and compiled."""',
    )
    covered = {path.removeprefix("pack/") for path in key_sources([root])}
    assert covered == {
        *(
            "model/compiled.py",
            "kernel.py",
            "kernel_by_module.py",
            "extension.py",
            "shapes.py",
            "widths.py",
            "late.py",
            "room/g.py",
        )
    }


def test_the_key_depends_on_content_path_and_versions_only(tmp_path):
    modules = {
        "kernel": "from pack.model.compiled import njit\nfrom pack.shapes import SIZE",
        "shapes": "SIZE = 1",
        "other": "",
    }
    here, there = (_package(tmp_path / name, **modules) for name in ("a", "b"))
    key = sources_key([here], "1.0")
    assert key == sources_key([there], "1.0")
    assert key != sources_key([here], "1.1")
    (there / "other.py").write_text("from pack.kernel import run")
    assert key == sources_key([there], "1.0")
    (there / "shapes.py").write_text("SIZE = 2")
    assert key != sources_key([there], "1.0")
    (here / "other.py").write_text("from pack.model.compiled import njit")
    assert key != sources_key([here], "1.0")


@pytest.mark.slow
def test_an_edit_changes_the_key_exactly_if_the_source_is_covered(tmp_path):
    for package in PACKAGES:
        shutil.copytree(
            package,
            tmp_path / package.name,
            ignore=lambda folder, names: [
                name for name in names if not ((Path(folder) / name).is_dir() or name.endswith(".py"))
            ],
        )
    copies = [tmp_path / package.name for package in PACKAGES]
    covered = key_sources(copies)
    assert covered == key_sources(PACKAGES)
    key = sources_key(copies)
    for path in set(SOURCES) - set(covered):
        (tmp_path / path).write_bytes(SOURCES[path] + b"\n# edited\n")
    (copies[-1] / "added.py").write_text("from cotenant.policy.placement.profiles import profile\n")
    assert sources_key(copies) == key
    for path in set(SOURCES) - set(covered):
        (tmp_path / path).unlink()
    assert sources_key(copies) == key
    for path, source in list(covered.items())[::EVERY]:
        (tmp_path / path).write_bytes(source + b"\n# edited\n")
        assert sources_key(copies) != key, path
        (tmp_path / path).write_bytes(source)
    assert sources_key(copies) == key


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _referenced(function: types.FunctionType) -> Iterator[tuple[str, object]]:
    """What a function can read by name: module globals and the cells it closes over."""
    for code in _codes(function.__code__):
        for name in code.co_names:
            if name in function.__globals__:
                yield name, function.__globals__[name]
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        yield name, cell.cell_contents


def _home(value: object) -> str | None:
    """The module that defines a value, None for plain constants."""
    if isinstance(value, types.ModuleType):
        return value.__name__
    if isinstance(value, Dispatcher):
        return value.py_func.__module__
    if inspect.isclass(value) or inspect.isroutine(value):
        return value.__module__
    return type(value).__module__  # enum members and records; builtins for plain constants


@pytest.mark.slow
def test_what_compiled_functions_refer_to_is_covered():
    covered = set(key_sources(PACKAGES))
    functions = {}
    for path in sorted(compiling(PACKAGE.name, SOURCES)):
        module = importlib.import_module(".".join(Path(path).with_suffix("").parts))
        functions.update({id(value): value.py_func for value in vars(module).values() if isinstance(value, Dispatcher)})
    assert len(functions) > 100
    for function in functions.values():
        defined_in = module_path(function.__module__, SOURCES)
        if defined_in is None:
            continue  # compiled for its caller by numba itself
        assert defined_in in covered, f"{function.__name__} is defined in {defined_in}"
        bound = {
            name.rsplit(".", 1)[-1]: name for name in imports(SOURCES[defined_in])
        }  # where imported constants come from
        for name, value in _referenced(function):
            for home in (_home(value), bound.get(name)):
                source = module_path(home, SOURCES) if home else None
                assert source is None or source in covered, f"{defined_in}: {function.__name__} uses {name} of {home}"


@pytest.mark.slow
def test_every_module_that_uses_a_decorator_is_found():
    roots = compiling(PACKAGE.name, SOURCES)
    names = {"njit", "inlined", "numba"}
    for path, source in SOURCES.items():
        if path not in roots and any(name.encode() in source for name in names):
            uses = {node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)} & names
            assert not uses, f"{path}: {uses}"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package with one compiled function and one source that it does not need."""
    made = tmp_path / "cotenant"
    (made / "model").mkdir(parents=True)
    (made / "model" / "kernel.py").write_text("import numba\nSHARE = 0.5\n")
    (made / "other.py").write_text("x = 1\n")
    return made


def test_a_key_is_read_once_while_no_source_changes(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = tmp_path / "cache"
    reads: list[Sequence[Path]] = []

    def read(packages: Sequence[Path]) -> dict[str, bytes]:
        reads.append(packages)
        return key_sources(packages)

    monkeypatch.setattr(compiled_sources, "key_sources", read)
    first = remembered_key(memory, [package], "1.0")
    assert remembered_key(memory, [package], "1.0") == first == sources_key([package], "1.0")
    assert len(reads) == 2  # the second is this test's own
    assert remembered_key(memory, [package], "1.1") == sources_key([package], "1.1") != first


def test_a_source_of_the_same_size_and_date_is_noticed(package: Path, tmp_path: Path) -> None:
    memory, kernel = tmp_path / "cache", package / "model" / "kernel.py"
    first, before = remembered_key(memory, [package]), kernel.stat()
    kernel.write_text("import numba\nSHARE = 0.6\n")
    os.utime(kernel, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert kernel.stat().st_size == before.st_size
    assert remembered_key(memory, [package]) == sources_key([package]) != first
    (package / "more.py").write_text("import numba\n")
    assert remembered_key(memory, [package]) == sources_key([package])


@pytest.mark.parametrize("text", ["", "one", "a b c", "\xff"])
def test_a_damaged_memory_is_made_again(package: Path, tmp_path: Path, text: str) -> None:
    memory = tmp_path / "cache"
    key = remembered_key(memory, [package])
    (file,) = memory.iterdir()
    good = file.read_text()
    file.write_bytes(text.encode("latin-1"))
    assert remembered_key(memory, [package]) == key
    assert file.read_text() == good


def test_without_a_memory_the_key_is_read(package: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert remembered_key(tmp_path / "file" / "cache", [package]) == sources_key([package])


def test_the_cache_of_this_process_bears_the_key():
    import numba

    assert cache_directory().name == sources_key(PACKAGES, numba.__version__)
    assert str(cache_directory()) == numba.config.CACHE_DIR
    assert with_imports(compiling(PACKAGE.name, SOURCES), SOURCES) == set(key_sources(PACKAGES))
