"""Knobs of cgroups on v1 and v2: read, write, and restore exactly.

A knob is one file on v2 and up to four on v1, whose kernels refuse for reasons of their own (a burst above its quota, a
quota above the parent's, an idle group's weight), and a restore must reproduce even what the canonical form cannot
express. The canonical text is translated for reads and writes (translation.py, knob_writes.py); `raw` is a JSON object
of the files' own texts, and `restore` writes those and no other files. A refusal by the kernel is reported with its
likely cause (refusals.py).
Limits: `memory.reclaim` blocks while the kernel reclaims, and reclaims what it can.

Special cases: setting cpu.idle makes the kernel forget the weight, so `raw` of cpu.idle includes it and `restore`
clears idle first. A cpuset that was empty cannot be emptied again while tasks are in it: on v2 it is set to every
possible CPU, which is limited to the parent's and so is equivalent; on v1, where an empty one could hold no tasks, to a
copy of the parent's. What v1's freezer.state shows may be of the group above, so a group's own state is read beside it.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType

from cotenant.drivers.cgroup.files import CgroupTree, parts_of
from cotenant.drivers.cgroup.knob_writes import (
    limit_device,
    reclaim,
    refuse_while_idle,
    restore_limits,
    set_bandwidth,
    set_cpus,
)
from cotenant.drivers.cgroup.layout import CgroupLayout, Hierarchy
from cotenant.drivers.cgroup.refusals import likely_cause
from cotenant.drivers.cgroup.translation import (
    FILES,
    KnobFiles,
    cpu_max_of,
    device_limits_of,
    io_weight_of,
    io_weight_text,
    memory_max_of,
    parse_shares,
    shares_of,
    v1_frozen,
    weight_of_shares,
)
from cotenant.model.errors import CotenantError, InvalidInput, Permanent, Transient, Unsupported
from cotenant.model.machine.counters import Gap
from cotenant.model.machine.knob import Knob, KnobScope, KnobTarget, Vanished
from cotenant.model.machine.knob_values import canonical, parse_cpu_max, parse_io_max, parse_io_weight

_OF_SEVERAL_FILES = (Knob.IO_WEIGHT, Knob.IO_MAX)  # cpu.max on v1 is handled by `set_bandwidth`
_MAX_PROBED = 64  # groups that `supported` examines at most
_MAX_RAW = 64 * 1024
_AGAIN = frozenset((errno.EBUSY, errno.EINTR, errno.ENOMEM, errno.EAGAIN))
_FORBIDDEN = frozenset((errno.EPERM, errno.EROFS, errno.ELOOP))
_REFUSED = frozenset((errno.EINVAL, errno.ERANGE, errno.ENOSPC, errno.EDOM, errno.E2BIG, errno.EOVERFLOW, errno.ENXIO))


class CgroupKnobs:
    """Implements engine/node/interfaces.KnobPort for `KnobScope.CGROUP`. Holds one descriptor per tree until `close`.
    `enter` opens a tree by its path.
    """

    def __init__(
        self,
        layout: CgroupLayout,
        enter: Callable[[str], CgroupTree] = CgroupTree,
        possible: str = "/sys/devices/system/cpu/possible",
    ) -> None:
        self.layout = layout
        self._possible = possible
        self._enter = enter
        self._trees: dict[str, CgroupTree] = {}
        self._known: dict[Knob, Gap | None] = {}

    def close(self) -> None:
        """Close the trees; they are opened again when needed."""
        for tree in self._trees.values():
            tree.close()
        self._trees.clear()

    def __enter__(self) -> CgroupKnobs:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # The port

    def supported(self, knob: Knob) -> Gap | None:
        """None where this machine has the knob, or where no group exists yet to find out."""
        if knob in self._known:
            return self._known[knob]
        known, gap = self._probe(knob)
        if known:
            self._known[knob] = gap
        return gap

    def read(self, target: KnobTarget) -> str:
        """The current value, in canonical form. io.max has one line per limited device."""
        if not target.knob.undoable:
            raise Unsupported(f"reading {target.knob}", "a knob that keeps a value")
        hierarchy, names = self._files(target)
        texts = self._texts(target, hierarchy, names)
        try:
            return self._canonical(target.knob, hierarchy.version, names, texts)
        except InvalidInput as error:
            raise Permanent(f"{target} cannot be read: {error}") from error

    def raw(self, target: KnobTarget) -> str:
        """The texts of the knob's files, as JSON."""
        hierarchy, names = self._files(target)
        if not target.knob.undoable:
            if not self._tree(hierarchy).exists(target.group):
                raise Vanished(f"{target}: no such group")
            return "{}"
        texts = dict(zip(names, self._texts(target, hierarchy, names), strict=True))
        if target.knob is Knob.CPU_IDLE and texts[names[0]] == "0":
            weight = _weight_file(hierarchy.version)
            texts.update(zip((weight,), self._texts(target, hierarchy, (weight,)), strict=True))
        return json.dumps(texts)

    def write(self, target: KnobTarget, value: str) -> None:
        """Set the knob to a canonical value. A refused write leaves the knob unchanged."""
        value = _canonical_or_raise(target, value)
        hierarchy, names = self._files(target)
        tree, group, version = self._tree(hierarchy), target.group, hierarchy.version
        before = self.raw(target) if target.knob in _OF_SEVERAL_FILES else ""
        try:
            match target.knob:
                case Knob.CPU_MAX if version == 1:
                    cpu_max = parse_cpu_max(value)
                    set_bandwidth(tree, group, -1 if cpu_max.quota_us is None else cpu_max.quota_us, cpu_max.period_us)
                case Knob.CPU_WEIGHT:
                    refuse_while_idle(tree, target, value)
                    tree.write(group, names[0], str(shares_of(int(value))) if version == 1 else value)
                case Knob.CPUSET_CPUS:
                    set_cpus(tree, target, version, names[0], value, self._possible)
                case Knob.MEMORY_MAX if version == 1:
                    tree.write(group, names[0], "-1" if value == "max" else value)
                case Knob.MEMORY_RECLAIM:
                    reclaim(tree, group, names[0], value)
                case Knob.CGROUP_FREEZE if version == 1:
                    tree.write(group, names[1], v1_frozen(value))
                case Knob.IO_WEIGHT:
                    for name in names:
                        tree.write(group, name, io_weight_text(name, parse_io_weight(value)))
                case Knob.IO_MAX:
                    for limits in parse_io_max(value):
                        limit_device(tree, group, names, limits)
                case _:
                    tree.write(group, names[0], value)
        except OSError as error:
            if before:
                with suppress(CotenantError):
                    self.restore(target, before)
            raise self._error(target, hierarchy, error, value) from error

    def restore(self, target: KnobTarget, raw: str) -> None:
        """Write back what `raw` returned. `Transient` where another knob of the group has to be restored first."""
        hierarchy, names = self._files(target)
        texts = _parse_raw(target, raw, names, hierarchy.version)
        tree, group = self._tree(hierarchy), target.group
        try:
            match target.knob:
                case Knob.MEMORY_RECLAIM:
                    if not tree.exists(group):
                        raise Vanished(f"{target}: no such group")
                case Knob.CPU_MAX if hierarchy.version == 1:
                    set_bandwidth(tree, group, int(texts[names[0]]), int(texts[names[1]]))
                case Knob.CPU_IDLE:
                    tree.write(group, names[0], texts[names[0]])
                    weight = _weight_file(hierarchy.version)
                    if weight in texts:
                        tree.write(group, weight, texts[weight])
                case Knob.CPU_WEIGHT:
                    refuse_while_idle(tree, target, texts[names[0]])
                    tree.write(group, names[0], texts[names[0]])
                case Knob.CPUSET_CPUS:
                    set_cpus(
                        tree, target, hierarchy.version, names[0], texts[names[0]], self._possible, is_restore=True
                    )
                case Knob.CGROUP_FREEZE if hierarchy.version == 1:
                    tree.write(group, names[1], v1_frozen(texts[names[0]]))
                case Knob.IO_WEIGHT:
                    for name, text in texts.items():
                        tree.write(group, name, text.splitlines()[0])
                case Knob.IO_MAX:
                    restore_limits(tree, group, hierarchy.version, names, texts)
                case _:
                    tree.write(group, names[0], texts[names[0]])
        except OSError as error:
            failure = self._error(target, hierarchy, error, raw)
            # the original value is valid; a current value of another knob is in its way
            raise (Transient(str(failure)) if isinstance(failure, InvalidInput) else failure) from error
        except InvalidInput as error:
            raise Transient(str(error)) from error

    def identity(self, target: KnobTarget) -> str:
        """The inode of the group's folder, which no later group of the same name has
        (engine/node/interfaces.KnobIdentity).
        """
        _, hierarchy, _ = self._place(target.knob)
        try:
            with self._tree(hierarchy).folder(parts_of(target.group)) as at:
                return str(os.fstat(at).st_ino)
        except OSError as error:
            raise self._error(target, hierarchy, error, "") from error

    # Files of a knob

    def _tree(self, hierarchy: Hierarchy) -> CgroupTree:
        tree = self._trees.get(hierarchy.path)
        if tree is None:
            try:
                tree = self._enter(hierarchy.path)
            except OSError as error:
                raise Unsupported(
                    f"cgroups at {hierarchy.path}", f"a tree that can be opened: {error.strerror}"
                ) from error
            self._trees[hierarchy.path] = tree
        return tree

    def _place(self, knob: Knob) -> tuple[KnobFiles, Hierarchy, tuple[str, ...]]:
        """The knob's hierarchy and possible files. Raises `Unsupported` where this layout cannot have it."""
        if knob.scope is not KnobScope.CGROUP:
            raise InvalidInput("knob", str(knob), "one of a cgroup")
        spec = FILES[knob]
        hierarchy = self.layout.by_controller.get(spec.controller)
        if hierarchy is None and spec.is_core:
            hierarchy = self.layout.unified
        if hierarchy is None:
            raise Unsupported(str(knob), spec.needs if spec.is_core else f"the {spec.controller} controller")
        names = spec.files(hierarchy.version)
        if not names:
            raise Unsupported(str(knob), spec.needs)
        return spec, hierarchy, names

    def _files(self, target: KnobTarget) -> tuple[Hierarchy, tuple[str, ...]]:
        """The files of the knob that exist in this group."""
        spec, hierarchy, names = self._place(target.knob)
        if not spec.any_of:
            return hierarchy, names
        tree = self._tree(hierarchy)
        there = tuple(name for name in names if tree.has(target.group, name))
        if not there:
            raise self._absent(target, hierarchy)
        return hierarchy, there

    def _probe(self, knob: Knob) -> tuple[bool, Gap | None]:
        """Whether support is known, and what is missing."""
        try:
            spec, hierarchy, names = self._place(knob)
            tree = self._tree(hierarchy)
        except Unsupported as error:
            return True, Gap(str(knob), error.needs)
        witness = spec.witness[hierarchy.version - 1]
        waiting = [""]
        for _ in range(_MAX_PROBED):
            if not waiting:
                break
            group = waiting.pop(0)
            try:
                below = tree.children(group)
            except OSError:
                continue
            waiting.extend(f"{group}/{name}" if group else name for name in below[:_MAX_PROBED])
            # the root has fewer files than its children
            if group and tree.has(group, witness):
                there = [tree.has(group, name) for name in names]
                enough = any(there) if spec.any_of else all(there)
                return True, None if enough else Gap(str(knob), spec.needs)
        return False, None

    # Reading

    def _texts(self, target: KnobTarget, hierarchy: Hierarchy, names: tuple[str, ...]) -> tuple[str, ...]:
        tree = self._tree(hierarchy)
        try:
            return tuple(tree.read(target.group, name) for name in names)
        except OSError as error:
            raise self._error(target, hierarchy, error, "") from error

    def _canonical(self, knob: Knob, version: int, names: tuple[str, ...], texts: tuple[str, ...]) -> str:
        match knob:
            case Knob.CPU_MAX if version == 1:
                return str(cpu_max_of(*texts))
            case Knob.CPU_WEIGHT if version == 1:
                return str(weight_of_shares(parse_shares(texts[0])))
            case Knob.CPU_WEIGHT:
                # an idle group's weight reads 0 and counts as the minimum
                return canonical(knob, "1" if texts[0] == "0" else texts[0])
            case Knob.MEMORY_MAX if version == 1:
                return memory_max_of(texts[0])
            case Knob.IO_WEIGHT:
                return f"default {io_weight_of(names[0], texts[0])}"
            case Knob.IO_MAX if version == 1:
                return canonical(knob, "\n".join(str(limits) for limits in device_limits_of(texts)))
            case _:
                return canonical(knob, texts[0])

    # Errors

    def _absent(self, target: KnobTarget, hierarchy: Hierarchy) -> Exception:
        """For a missing file: is the group gone, or does it not have the knob?"""
        if not self._tree(hierarchy).exists(target.group):
            return Vanished(f"{target}: no such group")
        spec = FILES[target.knob]
        witness = spec.witness[hierarchy.version - 1]
        if not target.group:
            return Unsupported(str(target), "a group below the root")
        if hierarchy.version == 2 and not self._tree(hierarchy).has(target.group, witness):
            return Unsupported(str(target), f"{spec.controller} in cgroup.subtree_control of the group's parent")
        return Unsupported(str(target), spec.needs)

    def _error(self, target: KnobTarget, hierarchy: Hierarchy, error: OSError, value: str) -> Exception:
        tree, code = self._tree(hierarchy), error.errno
        there = tree.exists(target.group)
        if code in (errno.ENOENT, errno.ENOTDIR):
            return self._absent(target, hierarchy)
        if not there:
            return Vanished(f"{target}: no such group")
        # EACCES from an open is about permissions; from a write, about the value (a v1 cpuset beyond its parent's)
        if code in _FORBIDDEN or (code == errno.EACCES and error.filename is not None):
            return Permanent(f"{target} may not be written: {error.strerror}")
        if code in _AGAIN:
            return Transient(f"{target}: {error.strerror}")
        if code in _REFUSED or code in (errno.EACCES, errno.ENODEV):
            expected, hint = likely_cause(tree, target, hierarchy.version, error)
            return InvalidInput(str(target), value, expected, hint)
        return Permanent(f"{target}: {error.strerror}")


def _canonical_or_raise(target: KnobTarget, value: str) -> str:
    try:
        return canonical(target.knob, value)
    except InvalidInput as error:
        raise InvalidInput(str(target), value, error.expected, error.hint) from None


def _weight_file(version: int) -> str:
    return FILES[Knob.CPU_WEIGHT].files(version)[0]


def _parse_raw(target: KnobTarget, raw: str, names: tuple[str, ...], version: int) -> dict[str, str]:
    """Decode the texts of `raw`. Raises `InvalidInput` where they are not this knob's."""
    expected = "what raw() returned for this knob on this machine"
    try:
        texts = json.loads(raw) if len(raw) <= _MAX_RAW else None
    except ValueError:
        texts = None
    allowed = {*names, _weight_file(version)} if target.knob is Knob.CPU_IDLE else set(names)
    wanted = set(names) if target.knob.undoable else set()
    if not isinstance(texts, dict) or not wanted <= set(texts) <= allowed:
        raise InvalidInput(f"raw value of {target}", raw, expected)
    if not all(isinstance(text, str) for text in texts.values()):
        raise InvalidInput(f"raw value of {target}", raw, expected)
    return texts
