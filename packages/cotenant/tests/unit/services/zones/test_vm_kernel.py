"""Which kernel a zone's machine boots: stated by its author, chosen, built or fetched."""

from __future__ import annotations

from pathlib import Path

import pytest

from cotenant.drivers.qemu.packages import keep
from cotenant.model.errors import Unsupported
from cotenant.services.zones import vm_opening
from cotenant.services.zones.definition import BackendChoice, ZoneDefinition
from cotenant.services.zones.groups import GroupClass, ZoneGroup
from cotenant.services.zones.vm_definition import KernelDefinition, KernelPreemption, VmDefinition
from cotenant.services.zones.vm_opening import check_vm, kernel_for


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("COTENANT_CACHE", str(tmp_path))
    monkeypatch.setattr(vm_opening, "missing", lambda: "")
    return tmp_path


def built(cache: Path, hz: int) -> None:
    keep(cache / f"zone-guest-hz{hz}" / f"7.3.4-cotenant-{hz}", {"vmlinux": b"\x7fELF"})


def zone(
    late_ms: float = 2, backend: BackendChoice = BackendChoice.AUTO, kernel: KernelDefinition | None = None
) -> ZoneDefinition:
    group = ZoneGroup("web", GroupClass.SERVICE, late_ms)
    vm = VmDefinition(kernel=kernel or KernelDefinition())
    return ZoneDefinition("box", (group,), vm=vm, backend=backend)


def kernel_of(definition: ZoneDefinition) -> KernelDefinition:
    chosen, _ = kernel_for(definition)
    assert chosen.vm is not None
    return chosen.vm.kernel


def test_auto_chooses_the_model_and_the_tick_that_was_built(cache: Path) -> None:
    assert kernel_of(zone()) == KernelDefinition(preempt=KernelPreemption.FULL, hz=250)
    built(cache, 1000)
    assert kernel_of(zone()) == KernelDefinition(preempt=KernelPreemption.FULL, hz=1000)
    assert kernel_of(zone(late_ms=5)).hz == 250
    definition, why = kernel_for(zone())
    assert why == "a service is late after 2 ms, which 250 ticks a second do not keep: full preemption, 1000 ticks"
    assert check_vm(definition, "").version == "7.3.4-cotenant-1000"


def test_what_an_author_states_is_left_alone(cache: Path) -> None:
    built(cache, 1000)
    for definition in (
        zone(backend=BackendChoice.ROOT),
        zone(kernel=KernelDefinition(preempt=KernelPreemption.LAZY)),
        zone(kernel=KernelDefinition(file="image")),
        zone(kernel=KernelDefinition(hz=250)),
    ):
        assert kernel_for(definition) == (definition, "")


def test_a_tick_that_no_package_has_must_be_built(cache: Path) -> None:
    definition = zone(kernel=KernelDefinition(hz=1000))
    with pytest.raises(Unsupported, match="1000 ticks a second: `cotenant zone kernel --hz 1000` builds it"):
        check_vm(definition, "")
    built(cache, 1000)
    assert check_vm(definition, "").version == "7.3.4-cotenant-1000"
    with pytest.raises(Unsupported, match="`cotenant zone kernel` fetches it"):
        check_vm(zone(kernel=KernelDefinition(hz=250)), "")
