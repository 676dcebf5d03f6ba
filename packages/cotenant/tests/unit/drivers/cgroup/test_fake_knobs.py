from collections.abc import Callable

import pytest
from tests.fakes.node.fake_knobs import FakeKnobs
from tests.fakes.node.knob_contract import KnobContract

from cotenant.model.errors import Transient
from cotenant.model.machine.knob import Knob, KnobTarget


class TestFakeKnobs(KnobContract):
    @pytest.fixture
    def group(self) -> str:
        return "kubepods/besteffort/pod1"

    @pytest.fixture
    def device(self) -> str:
        return "254:0"

    @pytest.fixture
    def knobs(self, group: str) -> FakeKnobs:
        return FakeKnobs([group])

    @pytest.fixture
    def vanish(self, knobs: FakeKnobs, group: str) -> Callable[[], None]:
        return lambda: knobs.remove("kubepods")


class TestFakeKnobsOfALackingMachine(TestFakeKnobs):
    @pytest.fixture
    def knobs(self, group: str) -> FakeKnobs:
        lacking = {Knob.CPU_IDLE: "Linux 5.15", Knob.MEMORY_HIGH: "cgroup v2", Knob.MEMORY_RECLAIM: "cgroup v2"}
        return FakeKnobs([group], lacking)


def test_failures_are_raised_once_each_and_change_nothing() -> None:
    knobs, target = FakeKnobs(["a"]), KnobTarget("a", Knob.CPU_WEIGHT)
    knobs.fail("write", target, Transient("busy"), OSError("torn"))
    for kind in (Transient, OSError):
        with pytest.raises(kind):
            knobs.write(target, "5")
    assert knobs.read(target) == "100"
    knobs.write(target, "5")
    assert knobs.journal == [("write", target, "5")]
    assert knobs.snapshot() == {target: "5"}


def test_a_recreated_group_has_default_values() -> None:
    knobs, target = FakeKnobs(["a", "a/b"]), KnobTarget("a/b", Knob.CPU_WEIGHT)
    knobs.set_outside(target, "7")
    knobs.remove("a")
    knobs.add("a/b")
    assert knobs.read(target) == "100"
