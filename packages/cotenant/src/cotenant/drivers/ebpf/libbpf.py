"""The part of libbpf that loads one of our objects and reads its maps, through ctypes.

A node should need no compiler and no build step to be measured. Objects are built once and relocated to the running
kernel by libbpf (CO-RE); libbpf comes from the pylibbpf wheel, which bundles it, else from the system.
Limits: only what our objects use. The wheel does not export libbpf's ring buffer reader, so `ring.py` maps the ring
itself.

Source: libbpf 1.x, bpf/libbpf.h and bpf/bpf.h.
"""

from __future__ import annotations

import ctypes
import errno
import importlib.util
import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from types import TracebackType

from cotenant.model.errors import Permanent, Transient, Unsupported

PROBE = "eBPF"
OBJECTS_VARIABLE = "COTENANT_BPF_OBJECTS"
SOURCES = Path(__file__).parents[6]  # in a checkout
_LINES_KEPT = 12  # of libbpf's log: the verifier's result comes last
# of libbpf itself, and what it writes into the verifier's
_LACKING = re.compile(
    r"\(func ksym\) '(\w+)': (?:func_proto|not found)|kfunc '(\w+)' is referenced but wasn't resolved"
)
_ANY = 0  # BPF_ANY: create or replace

_Printer = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
_POINTER, _INT, _TEXT = ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p
_SIGNATURES: dict[str, tuple[object, tuple[object, ...]]] = {
    "libbpf_set_print": (_POINTER, (_Printer,)),
    "libbpf_num_possible_cpus": (_INT, ()),
    "libbpf_major_version": (ctypes.c_uint32, ()),
    "libbpf_minor_version": (ctypes.c_uint32, ()),
    "bpf_object__open_file": (_POINTER, (_TEXT, _POINTER)),
    "bpf_object__load": (_INT, (_POINTER,)),
    "bpf_object__close": (None, (_POINTER,)),
    "bpf_object__next_program": (_POINTER, (_POINTER, _POINTER)),
    "bpf_object__find_map_by_name": (_POINTER, (_POINTER, _TEXT)),
    "bpf_program__name": (_TEXT, (_POINTER,)),
    "bpf_program__fd": (_INT, (_POINTER,)),
    "bpf_program__attach": (_POINTER, (_POINTER,)),
    "bpf_link__detach": (_INT, (_POINTER,)),
    "bpf_link__fd": (_INT, (_POINTER,)),
    "bpf_iter_create": (_INT, (_INT,)),
    "bpf_link__destroy": (_INT, (_POINTER,)),
    "bpf_link__pin": (_INT, (_POINTER, _TEXT)),
    "bpf_map__fd": (_INT, (_POINTER,)),
    "bpf_map__initial_value": (_POINTER, (_POINTER, ctypes.POINTER(ctypes.c_size_t))),
    "bpf_map__attach_struct_ops": (_POINTER, (_POINTER,)),
    "bpf_map__set_pin_path": (_INT, (_POINTER, _TEXT)),
    "bpf_map__set_max_entries": (_INT, (_POINTER, ctypes.c_uint32)),
    "bpf_map_lookup_elem": (_INT, (_INT, _POINTER, _POINTER)),
    "bpf_map_update_elem": (_INT, (_INT, _POINTER, _POINTER, ctypes.c_uint64)),
    "bpf_map_delete_elem": (_INT, (_INT, _POINTER)),
    "bpf_map_lookup_batch": (
        _INT,
        (_INT, _POINTER, _POINTER, _POINTER, _POINTER, ctypes.POINTER(ctypes.c_uint32), _POINTER),
    ),
    "bpf_enable_stats": (_INT, (_INT,)),
}


class _Library:
    """The shared library, and the last lines of its log."""

    def __init__(self, handle: ctypes.CDLL) -> None:
        self.handle = handle
        self.log_lines: deque[str] = deque(maxlen=_LINES_KEPT)
        libc = ctypes.CDLL(None)

        def print_line(_level: int, form: bytes, arguments: int) -> int:
            text = ctypes.create_string_buffer(1 << 16)  # a verifier log is one message
            libc.vsnprintf(text, ctypes.c_size_t(len(text)), ctypes.c_char_p(form), ctypes.c_void_p(arguments))
            self.log_lines.extend(line for line in text.value.decode(errors="replace").splitlines() if line.strip())
            return 0

        self._printer = _Printer(print_line)  # keeps a reference: libbpf calls it for the life of the process
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(handle, name)
            function.restype, function.argtypes = result, arguments
        handle.libbpf_set_print(self._printer)


def _candidates() -> Iterator[str]:
    wheel = importlib.util.find_spec("pylibbpf")
    for folder in (wheel.submodule_search_locations or ()) if wheel else ():
        yield from map(str, sorted(Path(folder).glob("*.so")))
    yield "libbpf.so.1"


@cache
def library() -> _Library:
    """The first libbpf that has all that is needed. Raises `Unsupported` where there is none."""
    for name in _candidates():
        try:
            return _Library(ctypes.CDLL(name, use_errno=True))
        except (OSError, AttributeError):
            continue
    raise Unsupported(
        PROBE, "libbpf 1.x: the system's (Debian: apt-get install libbpf1), or the wheel: pip install pylibbpf"
    )


def version() -> tuple[int, int]:
    """Major and minor version of the libbpf in use. Raises `Unsupported` where there is none."""
    handle = library().handle
    return int(handle.libbpf_major_version()), int(handle.libbpf_minor_version())


def possible_cpus() -> int:
    """The number of values of a key in a per-CPU map."""
    return int(library().handle.libbpf_num_possible_cpus())


class BpfMap:
    """A map with keys and values as bytes; `value_size`: of all CPUs together for a per-CPU map."""

    def __init__(self, fd: int, key_size: int, value_size: int) -> None:
        self.fd = fd
        self._key_size = key_size
        self._value_size = value_size

    def put(self, key: bytes, value: bytes) -> None:
        """Create or replace an entry."""
        if library().handle.bpf_map_update_elem(self.fd, key, value, _ANY):
            raise _failure("eBPF map", ctypes.get_errno())

    def drop(self, key: bytes) -> None:
        """Remove an entry if it exists."""
        if library().handle.bpf_map_delete_elem(self.fd, key) and ctypes.get_errno() != errno.ENOENT:
            raise _failure("eBPF map", ctypes.get_errno())

    def get(self, key: bytes) -> bytes | None:
        """One value; None where there is no entry."""
        value = ctypes.create_string_buffer(self._value_size)
        if library().handle.bpf_map_lookup_elem(self.fd, key, value):
            if ctypes.get_errno() == errno.ENOENT:
                return None
            raise _failure("eBPF map", ctypes.get_errno())
        return value.raw

    def batches(self, at_once: int = 1024) -> Iterator[tuple[bytes, bytes]]:
        """All entries, `at_once` per system call: concatenated keys, and their values. Entries added or removed
        meanwhile may be missed.
        """
        cursor, following = (ctypes.create_string_buffer(max(self._key_size, 8)) for _ in range(2))
        start: ctypes.Array[ctypes.c_char] | None = None
        while True:
            count = ctypes.c_uint32(at_once)
            keys = ctypes.create_string_buffer(self._key_size * at_once)
            values = ctypes.create_string_buffer(self._value_size * at_once)
            failed = library().handle.bpf_map_lookup_batch(
                self.fd, start, following, keys, values, ctypes.byref(count), None
            )
            error = ctypes.get_errno() if failed else 0
            if error == errno.ENOSPC:  # a bucket of the kernel's hash holds more than fits
                at_once *= 2
                continue
            if error not in (0, errno.ENOENT):
                raise _failure("eBPF map", error)
            yield (
                ctypes.string_at(keys, count.value * self._key_size),
                ctypes.string_at(values, count.value * self._value_size),
            )
            if error == errno.ENOENT:
                return
            ctypes.memmove(cursor, following, len(cursor))
            start = cursor

    def entries(self, at_once: int = 64) -> Iterator[tuple[bytes, bytes]]:
        """All entries one by one."""
        for keys, values in self.batches(at_once):
            for i in range(len(keys) // self._key_size):
                yield (
                    keys[i * self._key_size : (i + 1) * self._key_size],
                    values[i * self._value_size : (i + 1) * self._value_size],
                )


def objects_folder() -> Path:
    """Where the built objects are: the folder that `COTENANT_BPF_OBJECTS` names, else the package's own."""
    named = os.environ.get(OBJECTS_VARIABLE, "")
    return Path(named) if named else Path(__file__).parent / "objects"


def how_to_get(path: Path) -> str:
    """What a user can do about an absent object, in the sources and with an installed wheel."""
    source = path.name.removesuffix(".o") + ".c"
    if (SOURCES / "bpf" / source).is_file():
        return f"the built object {path.name}: run `make bpf` (clang and libbpf's headers)"
    return (
        f"the object {path.name}, which this installation was built without: reinstall on a machine with make, clang "
        "and libbpf's headers, "
        f"or run `make bpf` in the sources and set {OBJECTS_VARIABLE} to the folder of its objects"
    )


def kernel_lacks(log_lines: Iterable[str], release: str) -> str:
    """What a kernel must have, where libbpf's log says that an object calls one of its functions which this one does
    not have, or whose type information is broken; "" where it says nothing of that.
    """
    found = next((match for match in map(_LACKING.search, log_lines) if match is not None), None)
    if found is None:
        return ""
    name = found[1] or found[2]
    known = (
        "; Debian's packages of Linux 7.1.3 to 7.2.12 have broken type information, 7.2.13 and 7.3 have not"
        if name.startswith("scx_bpf_")
        else ""
    )
    return f"a kernel that programs can call {name} of (this is {release}{known})"


class LoadedObject:
    """One object loaded into the kernel and attached; a context manager that unloads it.

    `prepare` is called between opening and loading, while constants, sizes and pins can still be set. With `attach`
    False its programs are only loaded; `attach_struct_ops` then attaches a table of operations. Raises `Unsupported`
    with what is missing: the object itself, libbpf, BTF, the privilege, or what the kernel's verifier reports.
    """

    def __init__(self, path: Path, prepare: Callable[[LoadedObject], None], *, attach: bool = True) -> None:
        if not path.is_file():
            raise Unsupported(PROBE, how_to_get(path))
        if not os.path.exists("/sys/kernel/btf/vmlinux"):
            raise Unsupported(PROBE, "a kernel with BTF (CONFIG_DEBUG_INFO_BTF)")
        self._libbpf = library()
        self._libbpf.log_lines.clear()
        self._links: list[int] = []
        self._object = self._libbpf.handle.bpf_object__open_file(os.fsencode(path), None)
        if not self._object:
            raise Unsupported(PROBE, f"an object that libbpf can read: {self._last_lines()}")
        try:
            prepare(self)
            if self._libbpf.handle.bpf_object__load(self._object):
                raise self._refusal("loading")
            for program in self._programs() if attach else ():
                link = self._libbpf.handle.bpf_program__attach(program)
                if not link:
                    raise self._refusal("attaching")
                self._links.append(link)
        except BaseException:
            self.close()
            raise

    def _programs(self) -> Iterator[int]:
        program = None
        while program := self._libbpf.handle.bpf_object__next_program(self._object, program):
            yield program

    def _last_lines(self) -> str:
        return " / ".join(line.strip() for line in list(self._libbpf.log_lines)[-3:]) or "no reason given"

    def _refusal(self, step: str) -> Exception:
        code = ctypes.get_errno()
        if code in (errno.EPERM, errno.EACCES) and os.geteuid() != 0:
            return Unsupported(PROBE, "root, or CAP_BPF and CAP_PERFMON")
        if lacking := kernel_lacks(self._libbpf.log_lines, os.uname().release):
            return Unsupported(PROBE, lacking)
        return Unsupported(
            PROBE, f"a kernel that accepts our programs ({step}: {os.strerror(code)}): {self._last_lines()}"
        )

    def _map(self, name: str) -> int:
        found = self._libbpf.handle.bpf_object__find_map_by_name(self._object, name.encode())
        if not found:
            raise Permanent(f"eBPF object: no map named {name}; it was built from other sources: run `make bpf`")
        return int(found)

    def table(self, name: str, key_size: int, value_size: int) -> BpfMap:
        """The map of this name."""
        return BpfMap(self._libbpf.handle.bpf_map__fd(self._map(name)), key_size, value_size)

    def resize(self, name: str, entries: int) -> None:
        """Set a map's size; only before loading."""
        self._libbpf.handle.bpf_map__set_max_entries(self._map(name), entries)

    def pin(self, name: str, path: Path) -> None:
        """Pin a map at this path, or use the one that is pinned there; only before loading. The path's folder must
        exist.
        """
        self._libbpf.handle.bpf_map__set_pin_path(self._map(name), os.fsencode(path))

    def attach_struct_ops(self, name: str) -> None:
        """Attach the table of operations in the map of this name. Raises `Transient` (EBUSY) while another one is
        attached, `Unsupported` otherwise.
        """
        link = self._libbpf.handle.bpf_map__attach_struct_ops(self._map(name))
        if not link:
            code = ctypes.get_errno()
            if code == errno.EBUSY:
                raise Transient(f"{name}: {os.strerror(code)}")
            raise self._refusal("attaching")
        self._links.append(link)

    def pin_links(self, path: Path) -> None:
        """Pin the one link at this path, so that it outlives this process; `close` then leaves it attached. Raises
        `Permanent` where that fails.
        """
        (link,) = self._links
        if self._libbpf.handle.bpf_link__pin(link, os.fsencode(path)):
            raise Permanent(f"pinning a link at {path}: {os.strerror(ctypes.get_errno())}")
        self._links.clear()
        self._libbpf.handle.bpf_link__destroy(link)

    def detach(self) -> None:
        """Remove the links; the object stays loaded and can be attached again. Idempotent."""
        while self._links:
            link = self._links.pop()
            # closing the descriptor is not enough while a fork of this process has it too; not every kind of link can
            # be detached
            self._libbpf.handle.bpf_link__detach(link)
            self._libbpf.handle.bpf_link__destroy(link)

    def variables(self, section: str, size: int) -> bytes:
        """The first `size` bytes of `.rodata` or `.bss`; those of `.bss` as written by the running programs."""
        return ctypes.string_at(self._section(section, size), size)

    def set_variables(self, section: str, value: bytes) -> None:
        """Set the first bytes of a section; of `.rodata` only before loading."""
        ctypes.memmove(self._section(section, len(value)), value, len(value))

    def _section(self, name: str, size: int) -> int:
        length = ctypes.c_size_t()
        start = self._libbpf.handle.bpf_map__initial_value(self._map(name), ctypes.byref(length))
        if not start or length.value < size:
            raise Permanent(f"eBPF object: {name} is smaller than expected; built from other sources: run `make bpf`")
        return int(start)

    def iterator(self, name: str) -> int:
        """A descriptor whose reading runs the attached iterator of this name; the caller closes it. Raises
        `Permanent`.
        """
        names = [program for program, _ in self.programs()]
        if name not in names or len(self._links) != len(names):
            raise Permanent(f"eBPF object: no attached iterator named {name}")
        descriptor = self._libbpf.handle.bpf_iter_create(
            self._libbpf.handle.bpf_link__fd(self._links[names.index(name)])
        )
        if descriptor < 0:
            raise _failure("eBPF iterator", ctypes.get_errno())
        return int(descriptor)

    def programs(self) -> tuple[tuple[str, int], ...]:
        """Name and file descriptor of each program."""
        handle = self._libbpf.handle
        return tuple((handle.bpf_program__name(p).decode(), handle.bpf_program__fd(p)) for p in self._programs())

    def close(self) -> None:
        """Detach and unload. Idempotent."""
        self.detach()
        if self._object:
            self._libbpf.handle.bpf_object__close(self._object)
            self._object = None

    def __enter__(self) -> LoadedObject:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _failure(what: str, code: int) -> Exception:
    text = f"{what}: {os.strerror(code)}"
    return Transient(text) if code in (errno.ENOMEM, errno.EBUSY, errno.EINTR, errno.EAGAIN) else Permanent(text)
