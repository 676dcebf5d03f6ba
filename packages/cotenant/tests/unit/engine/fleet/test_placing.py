"""Which host a container goes to."""

from __future__ import annotations

import pytest

from cotenant.engine.fleet.placing import HostRoom, check_volumes, place
from cotenant.model.errors import Permanent
from cotenant.model.fleet.host import HostContainer
from cotenant.model.fleet.states import ContainerState
from cotenant.model.fleet.template import ContainerTemplate, GroupTemplate, Mount, PortMapping

GIB = 1 << 30
SMALL = HostRoom("agent-a", 1000, 2 * GIB, ("edge",))
LARGE = HostRoom("agent-b", 8000, 16 * GIB, ("gpu",))


def group(*containers: ContainerTemplate) -> GroupTemplate:
    return GroupTemplate("shop", containers)


def test_one_host_is_no_choice_but_its_tags_count() -> None:
    assert place(group(ContainerTemplate("web", "image")), [SMALL]) == {"web": "agent-a"}
    with pytest.raises(Permanent, match="web: the only host, agent-a, has no tag gpu"):
        place(group(ContainerTemplate("web", "image", host_tags=("gpu",))), [SMALL])
    with pytest.raises(Permanent, match="no host of this fleet"):
        place(group(ContainerTemplate("web", "image")), [])


def test_a_named_volume_has_one_host() -> None:
    def using(appkey: str, *tags: str) -> ContainerTemplate:
        return ContainerTemplate(appkey, "image", host_tags=tags, mounts=(Mount("data", "/a", is_volume=True),))

    hosts = {"agent-a": ("edge",), "agent-b": ("gpu",)}
    check_volumes(group(using("web")), {"agent-a": ()})
    check_volumes(group(using("web", "edge"), using("job", "edge")), hosts)
    check_volumes(group(using("web", "none")), hosts)  # placing says that no host has the tag
    check_volumes(group(ContainerTemplate("web", "image", mounts=(Mount("/srv", "/a"),))), hosts)
    with pytest.raises(
        Permanent, match=r"web: volume data is on one host, and 2 hosts may run it \(agent-a, agent-b\)"
    ):
        check_volumes(group(using("web")), hosts)
    with pytest.raises(Permanent, match="job: volume data is that of web on agent-a, and this runs on agent-b: give"):
        check_volumes(group(using("web", "edge"), using("job", "gpu")), hosts)


@pytest.mark.slow
def test_ports_of_addresses_decide_too() -> None:
    def half(agent: str) -> HostRoom:
        ports = ("127.0.0.1:80/tcp", "[::1]:81/tcp")
        return HostRoom(agent, 4000, GIB, (), (HostContainer(f"old-{agent}", ContainerState.READY, host_ports=ports),))

    first, second = half("agent-a"), half("agent-b")
    empty = HostRoom("agent-c", 4000, GIB)

    def goes(*ports: PortMapping) -> str:
        wanted = group(ContainerTemplate("web", "image", ports=ports))
        try:
            return place(wanted, [first, second])["web"]
        except Permanent:
            return place(wanted, [first, empty])["web"]

    assert goes(PortMapping(80, 80)) == goes(PortMapping(81, 80, "tcp", "::1")) == "agent-c"
    assert goes(PortMapping(80, 80, "tcp", "127.0.0.2")) in ("agent-a", "agent-b")


@pytest.mark.slow
def test_requests_tags_and_ports_decide() -> None:
    taken = HostContainer("old-1", ContainerState.READY, cpu_request_milli=7000, host_ports=("80/tcp",))
    full = HostRoom("agent-b", 8000, 16 * GIB, ("gpu",), (taken,))
    assert place(group(ContainerTemplate("web", "image", cpu_milli=2000)), [SMALL, LARGE]) == {"web": "agent-b"}
    assert place(group(ContainerTemplate("web", "image", host_tags=("edge",))), [SMALL, LARGE]) == {"web": "agent-a"}
    assert place(group(ContainerTemplate("web", "image", ports=(PortMapping(80, 80),))), [SMALL, full]) == {
        "web": "agent-a"
    }
    two = place(
        group(*(ContainerTemplate(name, "image", ports=(PortMapping(80, 80),)) for name in "xy")), [SMALL, LARGE]
    )
    assert set(two.values()) == {"agent-a", "agent-b"}
    with pytest.raises(Permanent, match=r"web: 0/2 hosts are available: 2 Insufficient cpu"):
        place(group(ContainerTemplate("web", "image", cpu_milli=2000)), [SMALL, full])
