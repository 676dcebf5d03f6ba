"""A Docker container as a pod of the node's agent: lease, guard, objective and explanation, by its labels."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fakes.servers.docker_fleet import IMAGE, Docker, Fleet
from tests.fakes.waiting import eventually

from cotenant.drivers.cgroup.knobs import CgroupKnobs
from cotenant.drivers.cgroup.layout import CgroupLayout
from cotenant.model.machine.knob import Knob, KnobTarget
from cotenant.services.fleet.functions.group_paths import group_paths

from .test_agent import AgentProcess

pytestmark = pytest.mark.slow
BUSY = "while :; do :; done"
SHOP = f"""
name: shop
services:
  front:
    image: {IMAGE}
    network_mode: host
    command: [sh, -c, "{BUSY}"]
    stop_grace_period: 0s
    labels: {{koordinator.sh/qosClass: LS, cotenant.io/objective-p99-ms: "5", cotenant.io/tenant: sales}}
  hog:
    image: {IMAGE}
    network_mode: host
    command: [sh, -c, "{BUSY}"]
    stop_grace_period: 0s
    labels: {{koordinator.sh/qosClass: BE}}
"""


@pytest.fixture
def agent(docker: Docker) -> Iterator[AgentProcess]:
    folder = Path(tempfile.mkdtemp(prefix="cotenant-test-"))
    folder.chmod(0o1777)
    sources = {"docker": str(docker.socket)}
    made = AgentProcess(folder, "docker", "--single", groups=[], sources=sources, discovery_period_s=1.0)
    yield made
    made.kill()
    shutil.rmtree(folder)


def test_a_hog_is_held_beside_a_service_and_both_are_explained(
    layout: CgroupLayout, docker: Docker, fleet: Fleet, tmp_path: Path, agent: AgentProcess
) -> None:
    (tmp_path / "shop.yml").write_text(SHOP)
    up = fleet.run("up", str(tmp_path / "shop.yml"), "--json")
    assert up.returncode == 0, up.stderr
    guids: dict[str, str] = json.loads(up.stdout)["guids"]
    ids = {appkey: docker.get(f"/containers/{guid}/json")["Id"] for appkey, guid in guids.items()}
    groups = group_paths(layout, ids)
    if not all(group.startswith("docker/") for group in groups.values()):
        pytest.skip(f"this daemon's groups are elsewhere: {groups}")
    with CgroupKnobs(layout) as knobs:
        weight = KnobTarget(groups["hog"], Knob.CPU_WEIGHT)
        before = knobs.read(weight)
        agent.start()
        eventually("the hog weighs less", lambda: knobs.read(weight) != before)
        pods = {pod["pod"]: pod for pod in agent.client.get("/v1/state")["pods"]}
        front, hog = pods[f"shop/{guids['front']}"], pods[f"shop/{guids['hog']}"]
        assert (front["qos"], front["tenant"], front["objective_p99_us"]) == ("LS", "sales", 5000)
        assert hog["qos"] == "BE"
        assert groups["hog"] in json.dumps(agent.client.get("/v1/leases"))
        story = json.dumps(agent.client.get(f"/v1/explain?pod=shop/{guids['hog']}"))
        assert groups["hog"] in story
        assert agent.client.get(f"/v1/explain?pod=shop/{guids['front']}")
        agent.kill()
        assert knobs.read(weight) != before
        agent.once()
        assert knobs.read(weight) == before
