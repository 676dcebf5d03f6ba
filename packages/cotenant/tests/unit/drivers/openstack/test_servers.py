"""`cotenant vm --cloud` by the real openstacksdk, over a cloud in memory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fakes.servers.nova import Nova, cloud

from cotenant.cli.main import main
from cotenant.model.errors import InvalidInput, Permanent
from cotenant.model.vms.machine import MachineSize, MachineState, MachineVerb
from cotenant.services.vms.command import MachineLocation, VerbOutcome, change, connected

pytest.importorskip("openstack", reason="openstacksdk is not installed")
SAME = MachineSize()
pytestmark = pytest.mark.slow  # imports openstacksdk, serves HTTP


@pytest.fixture
def nova(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Nova]:
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(tmp_path / "clouds.yaml"))
    with cloud(tmp_path) as found:
        yield found


def tell(verb: MachineVerb, name: str, to: MachineSize = SAME) -> VerbOutcome:
    async def run() -> VerbOutcome:
        async with connected(MachineLocation(cloud="test")) as platform:
            return await change(platform, verb, name, to, 60.0, lambda _: None, look_s=0.0)

    return asyncio.run(run())


def test_a_server_s_life(nova: Nova) -> None:
    nova.server("s1", "db", "SHUTOFF")
    assert tell(MachineVerb.START, "db").machine.state is MachineState.RUNNING
    assert tell(MachineVerb.PAUSE, "db").machine.state is MachineState.PAUSED
    assert tell(MachineVerb.UNPAUSE, "s1").machine.state is MachineState.RUNNING
    before = tell(MachineVerb.RESTART, "db").machine
    moved = tell(MachineVerb.MIGRATE, "db").machine
    assert (before.node, moved.node) == ("host-a", "host-b")
    resized = tell(MachineVerb.RESIZE, "db", MachineSize(flavor="m1.large")).machine
    assert resized.size == MachineSize(4, 8192, "m1.large")
    assert nova.servers["s1"]["status"] == "ACTIVE"  # the new size was confirmed
    assert tell(MachineVerb.STOP, "db").machine.state is MachineState.STOPPED


def test_pages_groups_and_class(nova: Nova, capsys: pytest.CaptureFixture[str]) -> None:
    for i in range(5):
        nova.server(f"s{i}", f"web-{i}")
    nova.groups = [{"id": "g", "name": "apart", "policy": "anti-affinity", "members": ["s1", "s3"]}]
    assert main(["vm", "class", "web-3", "batch", "--cloud", "test"]) == 0
    capsys.readouterr()
    assert main(["vm", "list", "--cloud", "test", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["machines"]
    assert [one["name"] for one in listed] == [f"web-{i}" for i in range(5)]
    assert [one["name"] for one in listed if one["group"] == "apart (anti-affinity)"] == ["web-1", "web-3"]
    assert [one["class_name"] for one in listed] == ["", "", "", "batch", ""]
    assert main(["vm", "class", "web-3", "none", "--cloud", "test"]) == 0
    assert nova.servers["s3"]["metadata"] == {}


def test_refusals(nova: Nova, capsys: pytest.CaptureFixture[str]) -> None:
    nova.server("s1", "db")
    nova.server("s2", "twin")
    nova.server("s3", "twin")
    with pytest.raises(Permanent, match="it is running, and start needs"):
        tell(MachineVerb.START, "db")
    with pytest.raises(InvalidInput, match="not 2: give its id"):
        tell(MachineVerb.STOP, "twin")
    with pytest.raises(InvalidInput, match=r"one of m1\.large, m1\.small"):
        tell(MachineVerb.RESIZE, "db", MachineSize(flavor="huge"))
    with pytest.raises(InvalidInput, match="OpenStack has no sizes in numbers"):
        tell(MachineVerb.RESIZE, "db", MachineSize(vcpus=8))
    nova.servers["s1"]["locked"] = True
    with pytest.raises(Permanent, match="it is locked"):
        tell(MachineVerb.STOP, "db")
    assert main(["vm", "list", "--cloud", "absent"]) == 1
    assert "OpenStack: Cloud absent was not found" in capsys.readouterr().err
    assert main(["vm", "list", "--cloud", "test", "-n", "shop"]) == 2


def test_a_server_that_fails(nova: Nova) -> None:
    nova.server("s1", "db", "SHUTOFF")
    real = nova._act

    def fail(server: dict[str, object], body: dict[str, object]) -> tuple[int, object]:
        done = real(server, body)
        nova._due["s1"] = {"status": "ERROR", "fault": {"message": "No valid host was found"}}
        return done

    nova._act = fail  # type: ignore[assignment,method-assign]
    assert tell(MachineVerb.START, "db").failure == "it has failed: No valid host was found"


@pytest.mark.parametrize(
    ("verb", "to"), [(MachineVerb.MIGRATE, SAME), (MachineVerb.RESIZE, MachineSize(flavor="m1.large"))]
)
def test_a_server_that_no_host_takes_is_not_waited_for(nova: Nova, verb: MachineVerb, to: MachineSize) -> None:
    nova.server("s1", "db")
    nova.gives_up = True
    outcome = tell(verb, "db", to)
    assert outcome.failure == "it is back where it was: the platform has given up"
    assert outcome.machine.state is MachineState.RUNNING
