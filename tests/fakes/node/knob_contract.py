"""The contract of engine/node/interfaces.KnobPort: one list of tests for fakes, fixture trees, this host and a guest.

A subclass named `Test...` gives the fixtures `knobs`, `group` (one that exists, every knob at its default), `vanish`
(removes that group) and `device` (MAJOR:MINOR of a disk that may be limited).
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cotenant.engine.node.interfaces import KnobPort
from cotenant.model.errors import InvalidInput, Transient, Unsupported
from cotenant.model.machine.knob import Knob, KnobScope, KnobTarget, Vanished

CGROUP_KNOBS = tuple(knob for knob in Knob if knob.scope is KnobScope.CGROUP)
# values that every kernel takes as they are: multiples of all page sizes, weights that v1 can say, the one CPU that all
# machines have
STEPS = {
    Knob.CPU_MAX: ("20000 100000", "30000 50000", "max 100000"),
    Knob.CPU_BURST: ("0",),
    Knob.CPU_WEIGHT: ("1", "50", "1000"),
    Knob.CPU_IDLE: ("1", "0", "1"),
    Knob.CPUSET_CPUS: ("0",),
    Knob.CGROUP_FREEZE: ("1", "0", "1"),
    Knob.MEMORY_MIN: ("1048576",),
    Knob.MEMORY_LOW: ("2097152",),
    Knob.MEMORY_HIGH: ("67108864", "max"),
    Knob.MEMORY_MAX: ("134217728", "268435456", "max"),
    Knob.IO_WEIGHT: ("default 50", "default 100"),
    Knob.IO_MAX: (
        "{device} rbps=1048576 wbps=2097152 riops=100 wiops=max",
        "{device} rbps=max wbps=1048576 riops=max wiops=200",
    ),
}


class KnobContract:
    """The tests."""

    @pytest.fixture(params=STEPS, ids=str)
    def target(self, request: pytest.FixtureRequest, group: str) -> KnobTarget:
        return KnobTarget(group, request.param)

    def test_a_written_knob_reads_back_and_restoring_gives_exactly_the_original(
        self, knobs: KnobPort, target: KnobTarget, device: str
    ) -> None:
        missing = knobs.supported(target.knob)
        if missing is not None:
            assert missing.what
            assert missing.needs
            for act in (
                lambda: knobs.read(target),
                lambda: knobs.raw(target),
                lambda: knobs.write(target, STEPS[target.knob][0].format(device=device)),
            ):
                with pytest.raises(Unsupported, match=missing.needs[:20]):
                    act()
            pytest.skip(f"{target.knob} needs {missing.needs}")
        before, raw = knobs.read(target), knobs.raw(target)
        for step in STEPS[target.knob]:
            value = step.format(device=device)
            knobs.write(target, value)
            assert knobs.read(target) == value
        knobs.restore(target, raw)
        assert knobs.read(target) == before
        assert knobs.raw(target) == raw

    def test_restoring_twice_is_restoring_once(self, knobs: KnobPort, group: str) -> None:
        target = KnobTarget(group, Knob.CPU_MAX)
        raw = knobs.raw(target)
        knobs.write(target, "20000 50000")
        knobs.restore(target, raw)
        knobs.restore(target, raw)
        assert knobs.raw(target) == raw

    def test_clearing_idle_restores_the_weight(self, knobs: KnobPort, group: str) -> None:
        """The kernel forgets the weight when idle is set."""
        idle, weight = KnobTarget(group, Knob.CPU_IDLE), KnobTarget(group, Knob.CPU_WEIGHT)
        if knobs.supported(Knob.CPU_IDLE) is not None:
            pytest.skip("no cpu.idle here")
        knobs.write(weight, "50")
        raw = knobs.raw(idle)
        knobs.write(idle, "1")
        assert knobs.read(weight) != "50"
        knobs.restore(idle, raw)
        assert (knobs.read(idle), knobs.read(weight)) == ("0", "50")

    def test_a_weight_of_an_idle_group_waits_for_idle_to_be_cleared(self, knobs: KnobPort, group: str) -> None:
        idle, weight = KnobTarget(group, Knob.CPU_IDLE), KnobTarget(group, Knob.CPU_WEIGHT)
        if knobs.supported(Knob.CPU_IDLE) is not None:
            pytest.skip("no cpu.idle here")
        raw_weight, raw_idle = knobs.raw(weight), None
        knobs.write(weight, "50")
        raw_idle = knobs.raw(idle)
        knobs.write(idle, "1")
        with pytest.raises(InvalidInput, match="idle"):
            knobs.write(weight, "200")
        with pytest.raises(Transient, match="idle"):
            knobs.restore(weight, raw_weight)
        knobs.restore(idle, raw_idle)
        knobs.restore(weight, raw_weight)
        assert knobs.raw(weight) == raw_weight

    def test_a_burst_goes_with_its_quota(self, knobs: KnobPort, group: str) -> None:
        quota, burst = KnobTarget(group, Knob.CPU_MAX), KnobTarget(group, Knob.CPU_BURST)
        if knobs.supported(Knob.CPU_BURST) is not None:
            pytest.skip("no cpu.max.burst here")
        raws = knobs.raw(quota), knobs.raw(burst)
        knobs.write(quota, "50000 100000")
        knobs.write(burst, "40000")
        assert knobs.read(burst) == "40000"
        with pytest.raises(InvalidInput):
            knobs.write(burst, "60000")
        with pytest.raises(InvalidInput):
            knobs.write(quota, "30000 100000")
        assert (knobs.read(quota), knobs.read(burst)) == ("50000 100000", "40000")
        knobs.restore(burst, raws[1])
        knobs.restore(quota, raws[0])
        assert (knobs.raw(quota), knobs.raw(burst)) == raws

    @pytest.mark.parametrize(
        ("knob", "value"),
        [
            (Knob.CPU_MAX, "500 100000"),
            (Knob.CPU_MAX, "fast"),
            (Knob.CPU_MAX, "10000 5"),
            (Knob.CPU_WEIGHT, "0"),
            (Knob.CPU_WEIGHT, "10001"),
            (Knob.CPUSET_CPUS, "3-1"),
            (Knob.MEMORY_MAX, "-1"),
            (Knob.MEMORY_MAX, "1G"),
        ],
    )
    def test_a_malformed_value_is_refused_and_changes_nothing(
        self, knobs: KnobPort, group: str, knob: Knob, value: str
    ) -> None:
        target = KnobTarget(group, knob)
        if knobs.supported(knob) is not None:
            pytest.skip(f"no {knob} here")
        raw = knobs.raw(target)
        with pytest.raises(InvalidInput, match=str(knob)):
            knobs.write(target, value)
        assert knobs.raw(target) == raw

    def test_a_foreign_raw_value_is_not_restored(self, knobs: KnobPort, group: str) -> None:
        target = KnobTarget(group, Knob.CPU_MAX)
        raw = knobs.raw(target)
        for wrong in ("", "20000 100000", "{}", "null", knobs.raw(KnobTarget(group, Knob.CPU_WEIGHT))):
            with pytest.raises(InvalidInput):
                knobs.restore(target, wrong)
        assert knobs.raw(target) == raw

    def test_a_missing_group_raises_vanished(self, knobs: KnobPort, group: str, vanish: Callable[[], None]) -> None:
        target = KnobTarget(group, Knob.CPU_MAX)
        raw = knobs.raw(target)
        vanish()
        for act in (
            lambda: knobs.read(target),
            lambda: knobs.raw(target),
            lambda: knobs.write(target, "20000 100000"),
            lambda: knobs.restore(target, raw),
        ):
            with pytest.raises(Vanished, match=r"cpu\.max"):
                act()

    def test_reclaim_leaves_nothing_to_restore(self, knobs: KnobPort, group: str) -> None:
        target = KnobTarget(group, Knob.MEMORY_RECLAIM)
        if knobs.supported(Knob.MEMORY_RECLAIM) is not None:
            with pytest.raises(Unsupported):
                knobs.write(target, "4096")
            return
        raw = knobs.raw(target)
        knobs.write(target, "0")
        knobs.restore(target, raw)
        with pytest.raises(Unsupported):
            knobs.read(target)
