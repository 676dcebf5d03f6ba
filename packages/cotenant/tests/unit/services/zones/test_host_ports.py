"""A port of the host is one pod's of one zone: refused with both named, and had again once that zone has ended."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.unit.services.zones.test_machine_limits import machine_in_memory
from tests.unit.services.zones.test_runner import MemoryKeeper

from cotenant.drivers.cgroup.layout import CgroupLayout, LayoutKind
from cotenant.model.errors import InvalidInput
from cotenant.services.zones.cluster_status import node_entry
from cotenant.services.zones.host import ZoneHost
from cotenant.services.zones.opening import ZoneSupport
from cotenant.services.zones.pods import PodPort
from cotenant.services.zones.zone_files import definition_of


def zone(name: str, *pods: tuple[str, str]) -> str:
    """The text of a zone with these pods and the ports of each."""
    listed = ", ".join(f"{{name: {pod}, image: {{archive: a.tar}}, ports: [{ports}]}}" for pod, ports in pods)
    return f"zone: {name}\nvm: {{}}\npods: [{listed}]\n"


def host(folder: Path) -> ZoneHost:
    """Of zones whose machines are in memory."""
    support = ZoneSupport(CgroupLayout(LayoutKind.V2, (), {}, None), root=False, sub=False)
    return ZoneHost(
        *(MemoryKeeper(), support, folder, ("kubepods",)),
        vm_opener=machine_in_memory,
        vm_check=lambda definition, source: None,
    )


@pytest.mark.parametrize(
    ("own", "taken", "clash"),
    [
        (PodPort(80, 90), PodPort(81, 90), True),
        (PodPort(80, 90), PodPort(80, 91), False),
        (PodPort(80, 90), PodPort(80, 90, "127.0.0.2"), False),
        (PodPort(80, 90), PodPort(80, 90, "0.0.0.0"), True),
        (PodPort(80, 90, "0.0.0.0"), PodPort(80, 90, "10.0.0.1"), True),
        (PodPort(80), PodPort(80), False),  # neither is forwarded
    ],
)
def test_two_ports_are_one_where_one_socket_can_listen(own: PodPort, taken: PodPort, clash: bool) -> None:
    assert own.takes(taken) is taken.takes(own) is clash


def test_two_zones_do_not_forward_one_port_and_it_is_free_once_a_zone_has_ended(tmp_path: Path) -> None:
    first = zone("one", ("web", "{container: 80, host: 24080}"))
    second = zone(
        "two", ("front", "{container: 81, host: 24081}"), ("api", "{container: 80, host: 24080, address: 0.0.0.0}")
    )

    async def main() -> None:
        zones = host(tmp_path)
        await zones.create(first, "one.yaml")
        with pytest.raises(InvalidInput) as error:
            await zones.create(second, "ControlZone/two@1:u")
        assert str(error.value) == (
            "pods.api.ports.host: 0.0.0.0:24080: expected a port of this host that no other zone forwards; zone one "
            "forwards 127.0.0.1:24080 to its pod web: take another port, or destroy that zone"
        )
        assert zones.sources == {"one": "one.yaml"}
        assert not (tmp_path / "two.zone").exists()  # nor tried again by the next keeper
        entry = node_entry(1, None, str(error.value), in_machine=True)
        assert entry["state"] == "refused"
        assert "zone one forwards" in entry["message"]
        await zones.destroy("one")
        await zones.create(second, "two.yaml")
        with pytest.raises(InvalidInput, match=r"zone two forwards 0\.0\.0\.0:24080 to its pod api"):
            await zones.create(first, "one.yaml")
        await zones.stop()

    asyncio.run(main())


def test_two_pods_of_a_zone_do_not_forward_one_port() -> None:
    every = "{container: 81, host: 24080, address: 0.0.0.0}"
    text = zone("one", ("web", "{container: 80, host: 24080}"), ("api", every))
    with pytest.raises(InvalidInput, match=r"pods\.api\.ports\.host: 0\.0.*pod web has 127\.0\.0\.1:24080"):
        definition_of(text.encode(), "one.yaml")
    apart = text.replace("address: 0.0.0.0", "address: 127.0.0.2")
    assert len(definition_of(apart.encode(), "one.yaml").pods) == 2
