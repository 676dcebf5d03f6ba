"""What cards cannot do is found before an agent acts, and nothing is set for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.fakes.node.fake_nvml import FakeNvml, Gpu
from tests.fakes.node.smi_slices import FakeSmi
from tests.unit.services.nodeview.test_doctor import found

from cotenant.engine.node.doctor.checks import findings
from cotenant.engine.node.recovery.settings import RecoverySettings
from cotenant.engine.node.recovery.stages import RecoveryRung
from cotenant.engine.node.settings import AgentSettings
from cotenant.services.nodeview.cards import unable

EVERY = tuple(RecoveryRung)


def test_each_knob_that_a_named_card_lacks_is_a_sentence(tmp_path: Path) -> None:
    smi = FakeSmi(tmp_path)
    nvml = FakeNvml(Gpu("GPU-a", fails={"PowerManagementLimit": 3}), Gpu("GPU-b"))

    def asked(*cards: str) -> tuple[str, ...]:
        return unable(RecoverySettings(cards=cards, rungs=EVERY), tmp_path / "none", nvml, str(smi.program))

    (power,) = asked("GPU-a")
    assert power.startswith("/GPU-a:gpu.power is not supported here: it needs a card and driver with such a limit")
    (slices,) = asked("GPU-b")
    assert slices.startswith("/GPU-b:gpu.timeslice: No devices were found")
    assert [line.partition(":")[0] for line in asked("GPU-z")] == ["/GPU-z"] * 3
    assert (nvml.gpus[1].power_mw, smi.slice) == (700_000, 0)
    assert unable(RecoverySettings(), tmp_path) == unable(None, tmp_path) == ()


def test_it_is_a_finding_of_the_doctor(tmp_path: Path) -> None:
    seen = replace(found(tmp_path, "kubepods", single=True), cards=("/GPU-a:gpu.power needs a card",))
    (finding,) = (one for one in findings(seen, AgentSettings()) if one.subject == "GPUs")
    assert (finding.text, finding.severity) == ("/GPU-a:gpu.power needs a card", "warning")
