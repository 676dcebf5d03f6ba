"""In-memory knobs whose groups have an identity, and a fuse that kills a keeper between two of its steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tests.fakes.node.fake_knobs import FakeKnobs

from cotenant.model.errors import Transient
from cotenant.model.machine.knob import KnobLease, KnobTarget, Vanished
from cotenant.services.knobs.executor import LeaseStore


class Killed(BaseException):
    """Stands in for kill -9; must not be caught."""


def raise_killed() -> None:
    """For a keeper within the test's own process."""
    raise Killed


class Fuse:
    """Blows at the n-th step from now, before or after it is done; never where `steps` is None."""

    def __init__(self, blow: Callable[[], None] = raise_killed) -> None:
        self.steps: int | None = None
        self.after = False
        self._blow = blow

    def burn(self, *, done: bool) -> None:
        """Called before and after each step."""
        if self.steps is not None and self.after is done:
            self.steps -= 1
            if self.steps < 0:
                self.steps = None
                self._blow()


class KeptKnobs(FakeKnobs):
    """`FakeKnobs` with `KnobIdentity` and a fuse."""

    def __init__(self, groups: Iterable[str] = ()) -> None:
        self.made: dict[str, int] = {}
        self.fuse = Fuse()
        super().__init__()
        for group in groups:
            self.add(group)

    def add(self, group: str) -> None:
        if group not in self.groups:
            self.made[group] = self.made.get(group, 0) + 1
        super().add(group)

    def identity(self, target: KnobTarget) -> str:
        if target.group not in self.groups:
            raise Vanished(f"{target}: no such group")
        return str(self.made[target.group])

    def write(self, target: KnobTarget, value: str) -> None:
        self.fuse.burn(done=False)
        super().write(target, value)
        self.fuse.burn(done=True)

    def restore(self, target: KnobTarget, raw: str) -> None:
        self.fuse.burn(done=False)
        super().restore(target, raw)
        self.fuse.burn(done=True)

    def read(self, target: KnobTarget) -> str:
        self.fuse.burn(done=False)
        return super().read(target)


class FusedMemory:
    """A state file on the same fuse, whose disk can be full: then what is durable fails, and the rest is owed."""

    def __init__(self, memory: LeaseStore, fuse: Fuse) -> None:
        self._memory = memory
        self._fuse = fuse
        self.full = False
        self._owed: list[tuple[tuple[KnobLease, ...], tuple[KnobTarget, ...]]] = []

    def keep(self, leases: Sequence[KnobLease], *, durable: bool) -> None:
        self._fuse.burn(done=False)
        if self.full and durable:
            raise Transient("no space left on device")
        if self.full:
            self._owed.append((tuple(leases), ()))
        else:
            self.flush()
            self._memory.keep(leases, durable=durable)
        self._fuse.burn(done=True)

    def drop(self, targets: Sequence[KnobTarget]) -> None:
        self._fuse.burn(done=False)
        if self.full:
            self._owed.append(((), tuple(targets)))
        else:
            self.flush()
            self._memory.drop(targets)
        self._fuse.burn(done=True)

    def flush(self) -> bool:
        while self._owed and not self.full:
            leases, targets = self._owed.pop(0)
            self._memory.keep(leases, durable=False)
            self._memory.drop(targets)
        return not self._owed
