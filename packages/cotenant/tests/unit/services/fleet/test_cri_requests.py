"""What a runtime is asked for by CRI: ports of addresses, and folders of the host."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.fakes.virtual_time import run_virtually

pytest.importorskip("google.protobuf")
from tests.fakes.node.pretended_cri import PretendedClient, PretendedCri

from cotenant.drivers.cri.containers import CriContainers
from cotenant.model.errors import Permanent
from cotenant.model.fleet.template import ContainerTemplate, Mount, PortMapping

WEB = ContainerTemplate(
    "web",
    "image",
    ports=(PortMapping(8080, 80, "tcp", "127.0.0.1"), PortMapping(53, 53, "udp")),
    mounts=(Mount("/srv/a", "/a", is_read_only=True), Mount("/srv/b", "/b")),
)


def test_ports_have_their_address_and_mounts_their_folder(tmp_path: Path) -> None:
    async def scene() -> None:
        runtime = PretendedCri()
        containers = CriContainers(Path("socket"), tmp_path, PretendedClient(runtime))
        await containers.create("web-1", WEB, {}, {})
        (pod,) = runtime.pods.values()
        assert [(port.host_ip, port.host_port, port.container_port, port.protocol) for port in pod.port_mappings] == [
            ("127.0.0.1", 8080, 80, 0),
            ("", 53, 53, 1),
        ]
        (made,) = runtime.containers.values()
        assert [(mount.host_path, mount.container_path, mount.readonly) for mount in made.config.mounts] == [
            ("/srv/a", "/a", True),
            ("/srv/b", "/b", False),
        ]

    run_virtually(scene())


def test_a_named_volume_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    async def scene() -> None:
        runtime = PretendedCri()
        containers = CriContainers(Path("socket"), tmp_path, PretendedClient(runtime))
        with pytest.raises(Permanent, match="volume data: a runtime by CRI has no volumes of its own; mount a folder"):
            await containers.create("web-1", replace(WEB, mounts=(Mount("data", "/a", is_volume=True),)), {}, {})
        assert (runtime.pods, runtime.containers) == ({}, {})

    run_virtually(scene())
