"""MIG instances as a knob over a stand-in of NVML after its reference, and as a lease that another keeper ends."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fakes.node.fake_nvml import Gpu
from tests.fakes.node.mig_nvml import MigNvml

from cotenant.drivers.gpu.knobs import GpuKnobs
from cotenant.drivers.gpu.mig import MigKnobs
from cotenant.drivers.gpu.nvml_cards import NvmlCards
from cotenant.drivers.kubelet.given_devices import KubeletDevices
from cotenant.drivers.leasefile.audit import AuditTrail
from cotenant.drivers.leasefile.file import LeaseFile
from cotenant.model.errors import InvalidInput, Transient, Unsupported
from cotenant.model.machine.knob import GiveBack, Knob, KnobScope, KnobTarget, LeaseState, SetKnob, Vanished
from cotenant.model.machine.node_decision import Reason
from cotenant.services.knobs.executor import Clock, LeaseExecutor
from cotenant.services.knobs.rules import KnobRules

MIG = KnobTarget("GPU-a", Knob.GPU_MIG)
WHY = Reason("test", "because")
SEVEN = " ".join(["1g.10gb"] * 7)


class Machine:
    """A divided card beside one that is whole, and what the kubelet says."""

    def __init__(self, *names: str) -> None:
        self.gpu = Gpu("GPU-a", divided=True)
        self.nvml = MigNvml(self.gpu, Gpu("GPU-b"))
        self.nvml.divide(self.gpu, *names)
        self.kubelet = KubeletDevices()
        self.cards = NvmlCards(self.nvml)
        self.mig = MigKnobs(self.cards, lambda: self.kubelet)
        self.port = GpuKnobs(cards=self.cards, instances=self.mig)

    @property
    def layout(self) -> list[tuple[str, int]]:
        return self.nvml.layout("GPU-a")


def test_instances_change_and_come_back_where_they_were() -> None:
    machine = Machine("3g.40gb", "2g.20gb", "1g.10gb")
    before, raw = machine.layout, machine.port.raw(MIG)
    assert machine.port.read(MIG) == "1g.10gb 2g.20gb 3g.40gb"
    machine.port.write(MIG, SEVEN)
    assert machine.port.read(MIG) == SEVEN
    assert len(machine.layout) == 7
    assert all(one.computes for one in machine.nvml.made["GPU-a"])
    machine.port.restore(MIG, raw)
    assert machine.layout == before
    assert machine.port.raw(MIG) == raw


def test_instances_that_stay_are_not_touched() -> None:
    machine = Machine("3g.40gb", "3g.40gb")
    kept = machine.nvml.made["GPU-a"][1]
    machine.nvml.on[kept.number] = [4711]  # so the other one of the two goes
    machine.port.write(MIG, "1g.10gb 2g.20gb 3g.40gb")
    assert kept in machine.nvml.made["GPU-a"]
    assert machine.port.read(MIG) == "1g.10gb 2g.20gb 3g.40gb"


def test_compute_instances_within_an_instance_come_back_too() -> None:
    machine = Machine("3g.40gb")
    (whole,) = machine.nvml.made["GPU-a"]
    whole.computes = {501: 1, 502: 2}
    machine.nvml._show(machine.gpu)
    raw = machine.port.raw(MIG)
    machine.port.write(MIG, "none")
    assert (machine.layout, machine.port.read(MIG)) == ([], "none")
    machine.port.restore(MIG, raw)
    (again,) = machine.nvml.made["GPU-a"]
    assert list(again.computes.values()) == [1, 2]


@pytest.mark.parametrize(
    "device", ["MIG-GPU-a-at-0", "MIG-GPU-a-at-0::3", "MIG-GPU-a/1/0", "nvidia0/gi1", "GPU-a", "GPU-a::0"],
    ids=["device", "replica", "before driver 470", "of GKE", "card", "replica of the card"],
)  # fmt: skip
def test_an_instance_that_a_pod_holds_does_not_go(device: str) -> None:
    machine = Machine("7g.80gb")
    machine.kubelet = KubeletDevices((("GPU-b", "ml/other"), (device, "ml/serve")))
    with pytest.raises(Transient, match=r"instance 1 \(7g.80gb\) has to go, and pod ml/serve holds it: drain it first"):
        machine.port.write(MIG, SEVEN)
    assert machine.layout == [("7g.80gb", 0)]


def test_a_pod_of_another_instance_or_card_is_in_nobodys_way() -> None:
    machine = Machine("3g.40gb", "3g.40gb")
    machine.kubelet = KubeletDevices(
        (
            ("MIG-GPU-a-at-4", "ml/serve"),
            ("GPU-b", "ml/train"),
            ("MIG-GPU-a/12/0", "x/y"),
            ("nvidia0/gi12", "x/z"),
            ("0", "x/o"),
        )
    )
    machine.port.write(MIG, "1g.10gb 3g.40gb")
    assert machine.layout == [("1g.10gb", 0), ("3g.40gb", 4)]


def test_a_program_or_an_offer_of_the_device_plugin_keeps_an_instance() -> None:
    machine = Machine("7g.80gb")
    machine.nvml.on[1] = [4711]
    with pytest.raises(Transient, match="process 4711 runs in it: drain it first"):
        machine.port.write(MIG, SEVEN)
    machine.nvml.on.clear()
    machine.kubelet = KubeletDevices((), ("MIG-GPU-a-at-0",))
    with pytest.raises(Transient, match="device plugin still offers MIG-GPU-a-at-0 to pods: stop the plugin"):
        machine.port.write(MIG, SEVEN)
    assert machine.layout == [("7g.80gb", 0)]


def test_a_kubelet_that_does_not_say_who_holds_what_stops_the_change() -> None:
    machine = Machine("7g.80gb")

    def away() -> KubeletDevices:
        raise Transient("which pods hold devices is not known")

    with pytest.raises(Transient, match="is not known"):
        MigKnobs(machine.cards, away).write(MIG, SEVEN)
    assert machine.layout == [("7g.80gb", 0)]


def test_a_program_that_begins_meanwhile_stops_it_and_what_was_there_is_made_again() -> None:
    machine = Machine("2g.20gb", "2g.20gb", "3g.40gb")
    before = machine.layout

    def begin() -> None:
        last = machine.nvml.made["GPU-a"][-1]
        if len(machine.nvml.made["GPU-a"]) == 1:
            machine.nvml.on[last.number] = [99]

    machine.nvml.before_destroying = begin
    with pytest.raises(Transient, match=r"a program began in an instance that goes$"):
        machine.port.write(MIG, SEVEN)
    assert machine.layout == before
    assert all(one.computes for one in machine.nvml.made["GPU-a"])


def test_what_has_no_room_is_refused_and_what_was_there_is_made_again() -> None:
    machine = Machine("3g.40gb", "1g.10gb")
    before, raw = machine.layout, machine.port.raw(MIG)
    with pytest.raises(InvalidInput, match="for which the card has room"):
        machine.port.write(MIG, "3g.40gb 3g.40gb 4g.40gb")
    assert (machine.layout, machine.port.raw(MIG)) == (before, raw)
    with pytest.raises(InvalidInput, match=r"profiles of this card: 1g.10gb, 1g.10gb\+me, 2g.20gb"):
        machine.port.write(MIG, "1g.5gb")


def test_a_card_without_mig_or_with_mode_off_or_one_that_waits_for_a_reset_is_named() -> None:
    machine = Machine()
    with pytest.raises(
        Unsupported, match=r"MIG mode, which no lease turns: drain the node, then nvidia-smi -i GPU-b -mig 1"
    ):
        machine.port.read(KnobTarget("GPU-b", Knob.GPU_MIG))
    machine.nvml.pending = 1
    with pytest.raises(Unsupported, match="waits for a reset"):
        machine.port.read(KnobTarget("GPU-b", Knob.GPU_MIG))
    machine.gpu.fails["MigMode"] = 3
    with pytest.raises(Unsupported, match="a card and driver with MIG"):
        machine.port.read(MIG)
    with pytest.raises(Vanished):
        machine.port.identity(KnobTarget("GPU-z", Knob.GPU_MIG))


@pytest.mark.parametrize(("code", "text"), [(4, "CAP_SYS_ADMIN"), (999, "NVML error 999")])
def test_a_refusal_halfway_leaves_what_was_there(code: int, text: str) -> None:
    machine = Machine("7g.80gb")
    machine.gpu.fails["GpuInstanceDestroy"] = code
    with pytest.raises(Exception, match=text):
        machine.port.write(MIG, SEVEN)
    machine.gpu.fails.clear()
    assert machine.layout == [("7g.80gb", 0)]


def keeper(machine: Machine, folder: Path) -> tuple[LeaseExecutor, LeaseFile]:
    file = LeaseFile(folder / "state", "this boot")
    rules = KnobRules((), gpus=frozenset({"GPU-a"}), mig=True)
    clock = Clock(lambda: 1_000_000, lambda: 1.0)
    return LeaseExecutor({KnobScope.GPU: machine.port}, file, AuditTrail(folder / "state"), clock, rules), file


def test_a_lease_of_instances_ends_where_they_were_also_after_a_keeper_that_was_killed(tmp_path: Path) -> None:
    machine = Machine("3g.40gb", "2g.20gb")
    before = machine.layout
    first, file = keeper(machine, tmp_path)
    (answer,) = first.hold([SetKnob(MIG, SEVEN, WHY)])
    assert (answer.state, len(machine.layout)) == (LeaseState.HELD, 7)
    file.close()
    second, file = keeper(machine, tmp_path)
    (answer,) = second.restart(file.found.leases)
    assert (answer.state, machine.layout) == (LeaseState.RESTORED, before)
    (answer,) = second.hold([SetKnob(MIG, "7g.80gb", WHY)])
    (answer,) = second.give_back([GiveBack(MIG, WHY)])
    assert (answer.state, machine.layout) == (LeaseState.RESTORED, before)
    file.close()


def test_a_lease_that_ends_while_pods_hold_its_instances_waits_for_them(tmp_path: Path) -> None:
    machine = Machine("7g.80gb")
    executor, file = keeper(machine, tmp_path)
    executor.hold([SetKnob(MIG, "3g.40gb 3g.40gb", WHY)])
    machine.kubelet = KubeletDevices((("MIG-GPU-a-at-4", "ml/serve"),))
    (answer,) = executor.give_back([GiveBack(MIG, WHY)])
    assert answer.state is LeaseState.RESTORING
    assert "pod ml/serve holds it" in answer.detail
    assert len(machine.layout) == 2
    machine.kubelet = KubeletDevices()
    (answer,) = executor.give_back([GiveBack(MIG, WHY)])
    assert (answer.state, machine.layout) == (LeaseState.RESTORED, [("7g.80gb", 0)])
    file.close()


def test_a_change_that_was_refused_is_no_lease(tmp_path: Path) -> None:
    machine = Machine("7g.80gb")
    machine.kubelet = KubeletDevices((("MIG-GPU-a-at-0", "ml/serve"),))
    executor, file = keeper(machine, tmp_path)
    (answer,) = executor.hold([SetKnob(MIG, SEVEN, WHY)])
    assert answer.state is LeaseState.REFUSED
    assert "pod ml/serve holds it" in answer.detail
    assert executor.leases() == ()
    file.close()


@pytest.mark.parametrize(
    ("rules", "value", "why"),
    [
        (KnobRules((), gpus=frozenset({"GPU-a"})), SEVEN, "no MIG instance is changed here (--gpu-mig)"),
        (KnobRules((), mig=True), SEVEN, "GPU-a is not an allowed GPU"),
        (KnobRules((), gpus=frozenset({"GPU-a"}), mig=True), "seven", "profiles such as"),
        (KnobRules((), gpus=frozenset({"GPU-a"}), mig=True), "", "profiles such as"),
        (KnobRules((), gpus=frozenset({"GPU-a"}), mig=True), "3g.40gb 1g.10gb", "is not canonical"),
        (KnobRules((), gpus=frozenset({"GPU-a"}), mig=True), "none none", "profiles such as"),
    ],
)
def test_what_the_keeper_refuses(rules: KnobRules, value: str, why: str) -> None:
    assert why in (rules.refusal(SetKnob(MIG, value, WHY)) or "")
