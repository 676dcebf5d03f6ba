"""Which host a container goes to."""

from __future__ import annotations

import pytest

from cotenant.engine.fleet.placing import HostRoom, place
from cotenant.model.errors import Permanent
from cotenant.model.fleet.host import HostContainer
from cotenant.model.fleet.states import ContainerState
from cotenant.model.fleet.template import ContainerTemplate, GroupTemplate, PortMapping

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
