"""Groups and limits on a real Docker daemon, and a fleet's process that is killed over them."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections import Counter
from pathlib import Path

import pytest
from tests.fakes.servers.docker_fleet import CHAIN, Docker, Fleet
from tests.fakes.waiting import eventually, patience

from cotenant.drivers.cgroup.knobs import CgroupKnobs
from cotenant.drivers.cgroup.layout import detect
from cotenant.drivers.docker.client import DockerClient
from cotenant.model.machine.knob import Knob, KnobTarget
from cotenant.services.fleet.functions.group_paths import group_paths

pytestmark = pytest.mark.slow
FAILING = "depends_on: [web], command: [sh, -c, 'echo first; echo no such luck; exit 1']"


def test_a_group_runs_and_goes(docker: Docker, fleet: Fleet, tmp_path: Path) -> None:
    up = fleet.run("up", str(tmp_path / "chain.yml"), "--json")
    assert up.returncode == 0, up.stderr
    guids = json.loads(up.stdout)["guids"]
    assert set(guids) == {"store", "web", "proxy"}
    made = docker.get(f"/containers/{guids['web']}/json")
    assert f"COTENANT_GUID={guids['web']}" in made["Config"]["Env"]
    assert "MODE=fast" in made["Config"]["Env"]
    eventually("a heartbeat says that it is ready", lambda: "Ready" in _with(fleet.run("ps").stdout, guids["proxy"]))
    assert fleet.run("inspect", guids["web"]).stdout.startswith(guids["web"])
    down = fleet.run("down", str(tmp_path / "chain.yml"))
    assert (down.returncode, down.stdout) == (0, "chain is gone\n")
    assert docker.of_agent(fleet.guid) == []


def test_a_failing_one_is_named_and_nothing_is_left(docker: Docker, fleet: Fleet, tmp_path: Path) -> None:
    (tmp_path / "bad.yml").write_text(CHAIN.replace("depends_on: [web]", FAILING))
    up = fleet.run("up", str(tmp_path / "bad.yml"))
    assert up.returncode == 1
    assert "probe of proxy" in up.stderr
    assert "ended with status 1; its log ends: no such luck" in up.stderr
    assert docker.of_agent(fleet.guid) == []


def test_a_failing_one_is_restarted_so_often_and_no_more(docker: Docker, fleet: Fleet, tmp_path: Path) -> None:
    worker = """
services:
  worker:
    image: "localhost/cotenant-test:latest"
    network_mode: host
    entrypoint: [/busybox, sh, -c, "/busybox sleep 2; exit 3"]
    restart: on-failure:2
"""
    (tmp_path / "worker.yml").write_text(worker)
    up = fleet.run("up", str(tmp_path / "worker.yml"), "--json")
    assert up.returncode == 0, up.stderr
    guid = json.loads(up.stdout)["guids"]["worker"]

    def ended() -> bool:
        state = docker.get(f"/containers/{guid}/json")
        return (state["RestartCount"], state["State"]["Status"]) == (2, "exited")

    eventually("it was restarted twice and ended", ended)
    made = docker.get(f"/containers/{guid}/json")
    assert made["HostConfig"]["RestartPolicy"] == {"Name": "on-failure", "MaximumRetryCount": 2}
    assert made["State"]["ExitCode"] == 3
    eventually("a heartbeat says that it failed", lambda: "ended with status 3" in fleet.run("ps", "--json").stdout)


def test_folders_and_volumes_are_mounted_and_a_volume_outlives_its_group(
    docker: Docker, fleet: Fleet, tmp_path: Path
) -> None:
    writes = (
        "echo $COTENANT_GUID >> /data/seen; cat /in/greeting > /out/greeting; echo no > /in/greeting; echo > /out/ended"
    )
    shop = f"""
name: {fleet.guid}
services:
  web:
    image: "localhost/cotenant-test:latest"
    network_mode: host
    entrypoint: [/busybox, sh, -c, "{writes.replace("cat ", "/busybox cat ").replace("$", "$$")}; /busybox sleep 600"]
    stop_grace_period: 0s
    volumes:
      - ./in:/in:ro
      - {{type: bind, source: ./out, target: /out, bind: {{create_host_path: true}}}}
      - data:/data
volumes: {{data: }}
"""
    (tmp_path / "shop.yml").write_text(shop)
    absent = fleet.run("up", str(tmp_path / "shop.yml"))
    assert absent.returncode == 1
    assert "reserve of web" in absent.stderr
    assert f"{tmp_path}/in is not there on this host" in absent.stderr
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "greeting").write_text("hello\n")
    guids = []
    volume = f"{fleet.guid}_data"
    for _ in range(2):
        up = fleet.run("up", str(tmp_path / "shop.yml"), "--json")
        assert up.returncode == 0, up.stderr
        guids.append(json.loads(up.stdout)["guids"]["web"])
        eventually("it wrote", (tmp_path / "out" / "ended").exists)
        (tmp_path / "out" / "ended").unlink()
        mounts = {mount["Destination"]: mount for mount in docker.get(f"/containers/{guids[-1]}/json")["Mounts"]}
        assert (mounts["/in"]["RW"], mounts["/out"]["RW"], mounts["/data"]["Name"]) == (False, True, volume)
        assert fleet.run("down", fleet.guid).returncode == 0
    assert (tmp_path / "in" / "greeting").read_text() == "hello\n"
    kept = docker.get(f"/volumes/{volume}")
    assert kept["Labels"] == {"cotenant.io/group": fleet.guid}
    assert Path(kept["Mountpoint"], "seen").read_text().split() == guids


def test_a_limit_is_held_and_given_back(docker: Docker, fleet: Fleet, tmp_path: Path) -> None:
    guids = json.loads(fleet.run("up", str(tmp_path / "chain.yml"), "--json").stdout)["guids"]
    (group,) = group_paths(detect(), {"web": docker.get(f"/containers/{guids['web']}/json")["Id"]}).values()
    with CgroupKnobs(detect()) as knobs:
        target = KnobTarget(group, Knob.CPU_MAX)
        before = knobs.read(target)
        said = fleet.run("limit", guids["web"], "cpu=100m", "--for", "1h")
        assert said.stdout.startswith(f"{guids['web']}: cpu=100m for 59m"), said.stderr
        assert knobs.read(target) == "10000 100000"
        fleet.run("limit", guids["web"], "cpu=")
        assert knobs.read(target) == before
        fleet.run("limit", guids["web"], "cpu=100m")
        fleet.kill()
        assert knobs.read(target) == "10000 100000"
        fleet.start()
        eventually("the next agent restored what the killed one left", lambda: knobs.read(target) == before)
        fleet.run("limit", guids["web"], "cpu=200m")
        fleet.kill(signal.SIGTERM)
        assert knobs.read(target) == before
    fleet.start()


@pytest.mark.parametrize(("made", "running"), [(1, 0), (3, 1), (3, 2)])
def test_killed_over_an_up(docker: Docker, fleet: Fleet, tmp_path: Path, made: int, running: int) -> None:
    asked = fleet.begin("up", str(tmp_path / "chain.yml"))
    eventually("so many are there", lambda: _reached(docker, fleet.guid, made, running))
    fleet.kill()
    asked.kill()
    asked.wait()
    fleet.start()
    eventually("the group is up", lambda: _is_up(fleet))
    found = docker.of_agent(fleet.guid)
    assert Counter(entry["Labels"]["cotenant.io/appkey"] for entry in found) == {"store": 1, "web": 1, "proxy": 1}
    assert {entry["State"] for entry in found} == {"running"}
    filters = json.dumps({"event": ["start"], "label": [f"cotenant.io/agent={fleet.guid}"]})
    events = _events(docker, filters)
    assert Counter(events) == {"store": 1, "web": 1, "proxy": 1}


def _reached(docker: Docker, agent: str, made: int, running: int) -> bool:
    found = docker.of_agent(agent)
    return len(found) >= made and sum(entry["State"] == "running" for entry in found) >= running


def _is_up(fleet: Fleet) -> bool:
    groups = json.loads(fleet.run("ps", "--json").stdout)["groups"]
    return [(group["goal"], group["done"]) for group in groups] == [("up", True)]


def _events(docker: Docker, filters: str) -> list[str]:
    async def ask() -> list[str]:
        client = DockerClient(docker.socket)
        parameters = {"since": "0", "until": str(int(time.time()) + 1), "filters": filters}
        try:
            lines = client.lines("GET", "/events", parameters, patience(30))
            return [line["Actor"]["Attributes"]["cotenant.io/appkey"] async for line in lines]
        finally:
            await client.close()

    return asyncio.run(ask())


def _with(text: str, word: str) -> str:
    return next((line for line in text.splitlines() if word in line), "")
