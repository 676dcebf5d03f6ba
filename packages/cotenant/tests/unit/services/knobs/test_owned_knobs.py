"""Knobs of units of systemd in the keeper: who has the value when a lease ends, whichever way it ends."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fakes.node.fake_systemd import FakeBus
from tests.fakes.node.kept_knobs import KeptKnobs

from cotenant.drivers.leasefile.audit import AuditTrail
from cotenant.drivers.systemd.manager import SystemdManager
from cotenant.drivers.systemd.properties import UNSET
from cotenant.model.kubelet.facts import KubeletFacts
from cotenant.model.machine.knob import GiveBack, Knob, KnobScope, KnobTarget, LeaseState, SetKnob
from cotenant.model.machine.node_decision import Reason
from cotenant.services.knobs.dry_run import NoStateFile
from cotenant.services.knobs.executor import Clock, LeaseExecutor
from cotenant.services.knobs.owned_knobs import OwnedKnobs
from cotenant.services.knobs.rules import KnobRules

GROUP = "kubepods.slice/kubepods-besteffort.slice"
UNIT = "kubepods-besteffort.slice"
QUOTA = KnobTarget(GROUP, Knob.CPU_MAX)
REASON = Reason("test", "because")


class World:
    def __init__(self, folder: Path) -> None:
        self.bus = FakeBus({UNIT: GROUP})
        self.files = KeptKnobs([GROUP])
        facts = KubeletFacts(2, systemd=252)
        self.knobs = OwnedKnobs(self.files, SystemdManager(lambda: self.bus), lambda: facts)  # type: ignore[arg-type]
        clock = Clock(lambda: 0, lambda: 1.0)
        rules = KnobRules(("kubepods.slice",), facts=lambda: facts)
        self.executor = LeaseExecutor({KnobScope.CGROUP: self.knobs}, NoStateFile(), AuditTrail(folder), clock, rules)

    def hold(self) -> LeaseState:
        return self.executor.hold([SetKnob(QUOTA, "50000 100000", REASON, 100)])[0].state

    @property
    def share(self) -> int | bytes:
        return self.bus.properties[UNIT]["CPUQuotaPerSecUSec"]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_lease_that_is_given_back_leaves_the_property_as_it_was(world: World) -> None:
    assert world.hold() is LeaseState.HELD
    assert world.share == 500_000
    world.executor.give_back([GiveBack(QUOTA, REASON)])
    assert (world.share, world.files.read(QUOTA)) == (UNSET, "max 100000")


@pytest.mark.parametrize("how", ["renewed", "given back"])
def test_a_lease_that_yields_leaves_the_others_value_as_the_property(world: World, how: str) -> None:
    """Else systemd would write ours over it later, and nobody would hold it."""
    world.hold()
    world.files.set_outside(QUOTA, "70000 100000")
    if how == "renewed":
        assert world.hold() is LeaseState.YIELDED
    else:
        assert world.executor.give_back([GiveBack(QUOTA, REASON)])[0].state is LeaseState.YIELDED
    assert (world.share, world.files.read(QUOTA)) == (700_000, "70000 100000")


def test_nothing_is_kept_of_a_group_that_is_gone(world: World) -> None:
    world.hold()
    world.files.remove(GROUP)
    assert world.hold() is LeaseState.GONE
    assert not world.knobs._through_systemd


def test_without_the_bus_the_file_is_written(world: World) -> None:
    world.bus.silent = True
    assert world.hold() is LeaseState.HELD
    assert (world.share, world.files.read(QUOTA)) == (UNSET, "50000 100000")
    world.executor.give_back([GiveBack(QUOTA, REASON)])
    assert world.files.read(QUOTA) == "max 100000"


@pytest.mark.parametrize(
    ("group", "facts"),
    [
        (GROUP, KubeletFacts(2, systemd=241)),  # has no such property
        (GROUP, KubeletFacts(2)),  # systemd is not there
        ("cotenant/batch", KubeletFacts(2, systemd=252)),  # nobody else's
    ],
)
def test_a_knob_that_is_not_systemds_is_never_asked_of_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, group: str, facts: KubeletFacts
) -> None:
    bus, files = FakeBus({UNIT: GROUP}), KeptKnobs([GROUP, "cotenant/batch"])
    bus.silent = True  # a question would be logged
    knobs = OwnedKnobs(files, SystemdManager(lambda: bus), lambda: facts)  # type: ignore[arg-type]
    target = KnobTarget(group, Knob.CPU_MAX)
    assert knobs.raw(target) == files.raw(target)
    knobs.write(target, "50000 100000")
    assert files.read(target) == "50000 100000"
    knobs.yielded(target)
    assert caplog.messages == []
