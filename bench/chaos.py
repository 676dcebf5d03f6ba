"""Chaos: parts are killed in any order while objects are installed and pods are moved under load; at the end every pod
runs, was bound once, every move has ended, and no node holds more than it has.

    python -m bench.chaos --rounds 20 --seed 1

Each part survives its own kill in a test of its own, and an installation restarts several at once, in an order nobody
wrote down. A round installs quotas, gangs and deployments in random order, asks for a move of a pod of each deployment,
and meanwhile kills (-9) or pauses (-STOP, some seconds) scheduler, extender, manager, rebalancer, credit and trace
process at random; then it waits until all is well, and compares the history of the watch with the present: moves ended
with their reservations used or deleted, and all accounts of credit are zero together. The seed is printed and gives the
same order of steps.
Limits: the times of kills are the machine's. The API server's own kill is `bench.apifaults`; agents and keepers are in
tests/fault/keeper and tests/node.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any

import aiohttp
import msgspec

from bench.churn import START_S, Cluster
from bench.kube.load import Server, session
from bench.machine import show

KILLED = ("scheduler", "extender", "manager", "rebalancer", "credit", "traces")
DEPLOYMENTS = "/apis/apps/v1/namespaces/{}/deployments"
GROUPS = "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/{}/podgroups"
QUOTAS = "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/{}/elasticquotas"
JOBS = "/apis/scheduling.koordinator.sh/v1alpha1/podmigrationjobs"
RESERVATIONS = "/apis/scheduling.koordinator.sh/v1alpha1/reservations"
SCHEDULING = "scheduling.sigs.k8s.io/v1alpha1"
ENDED = ("Succeeded", "Failed")
MEMBERS = 4
CPU_M = 50


def children(parent: int) -> dict[str, int]:
    """The pids of a `cotenant up`'s processes by name, as they are now."""
    found = {}
    for text in Path(f"/proc/{parent}/task/{parent}/children").read_text().split():
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{text}/cmdline").read_bytes().decode().split("\0")
            for name in KILLED:
                if name in words[:4]:
                    found[name] = int(text)
    return found


def _pod(labels: dict[str, str]) -> dict[str, Any]:
    amounts = {"cpu": f"{CPU_M}m", "memory": "32Mi"}
    container = {"name": "c", "image": "registry.example/app:1", "resources": {"requests": amounts}}
    return {"metadata": {"labels": labels}, "spec": {"schedulerName": "cotenant", "containers": [container]}}


def steps(rng: random.Random, namespace: str, deployments: int, replicas: int) -> list[tuple[str, dict[str, Any]]]:
    """What is installed, in random order: (collection, object)."""
    quota = {"min": {"cpu": "4", "memory": "8Gi"}, "max": {"cpu": "16", "memory": "32Gi"}}
    made: list[tuple[str, dict[str, Any]]] = [
        (QUOTAS,
            {"apiVersion": SCHEDULING, "kind": "ElasticQuota", "metadata": {"name": f"{namespace}-team"},
            "spec": quota}),
        (GROUPS,
            {"apiVersion": SCHEDULING, "kind": "PodGroup", "metadata": {"name": "gang"},
            "spec": {"minMember": MEMBERS}}),
        (
            f"/api/v1/namespaces/{namespace}/pods",
            {"apiVersion": "v1", "kind": "Pod", **_pod({}), "metadata": {"name": "one"}},
        ),
    ]  # fmt: skip
    for i in range(MEMBERS):
        body = _pod({"pod-group.scheduling.sigs.k8s.io": "gang", "app": "gang"})
        body["metadata"]["name"] = f"gang-{i}"
        made.append((f"/api/v1/namespaces/{namespace}/pods", {"apiVersion": "v1", "kind": "Pod", **body}))
    for i in range(deployments):
        labels = {"app": f"web-{i}"} | ({"quota.scheduling.koordinator.sh/name": f"{namespace}-team"} if i % 2 else {})
        spec = {"replicas": replicas, "selector": {"matchLabels": {"app": f"web-{i}"}}, "template": _pod(labels)}
        made.append(
            (
                DEPLOYMENTS,
                {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": f"web-{i}"}, "spec": spec},
            )
        )
    rng.shuffle(made)
    return [(path.format(namespace), body) for path, body in made]


async def ask_for_moves(http: aiohttp.ClientSession, namespace: str, deployments: int, until: float) -> list[str]:
    """A PodMigrationJob for one pod of each deployment, as soon as it runs. Names of the jobs."""
    made: list[str] = []
    for i in range(deployments):
        name = f"{namespace}-web-{i}"
        while monotonic() < until:
            path = f"/api/v1/namespaces/{namespace}/pods?labelSelector=app%3Dweb-{i}"
            running = [
                entry for entry in (await _get(http, path))["items"] if entry["status"].get("phase") == "Running"
            ]
            if running:
                pod = {"namespace": namespace, "name": running[0]["metadata"]["name"]}
                body = {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "PodMigrationJob"}
                spec = {"podRef": pod, "mode": "ReservationFirst", "ttl": "90s"}
                await _create(http, JOBS, {**body, "metadata": {"name": name}, "spec": spec})
                made.append(name)
                break
            await asyncio.sleep(0.1)
    return made


async def disturb(rng: random.Random, found: Callable[[], dict[str, int]], kills: int, pause_s: float) -> Counter[str]:
    """Kill or pause so many parts, one at a time; a part that is being restarted is passed over. What was done, by
    "kill NAME" or "pause NAME".
    """
    done: Counter[str] = Counter()
    until = monotonic() + START_S
    while sum(done.values()) < kills and monotonic() < until:
        await asyncio.sleep(rng.uniform(0.05, pause_s))
        alive = sorted(found().items())
        if not alive:
            continue
        name, pid = rng.choice(alive)
        with contextlib.suppress(ProcessLookupError):
            if rng.random() < 0.7:
                os.kill(pid, signal.SIGKILL)
                done[f"kill {name}"] += 1
            else:
                os.kill(pid, signal.SIGSTOP)
                await asyncio.sleep(rng.uniform(0.05, pause_s))
                os.kill(pid, signal.SIGCONT)
                done[f"pause {name}"] += 1
    return done


async def a_round(
    server: Server, found: Callable[[], dict[str, int]], rng: random.Random, namespace: str,
    *, deployments: int, replicas: int, kills: int, pause_s: float, within_s: float, moves: bool = True,
) -> dict[str, Any]:  # fmt: skip
    """Install, disturb, wait, compare. `moves` need a rebalancer. Raises `SystemExit` with what was lost."""
    pods = f"/api/v1/namespaces/{namespace}/pods"
    wanted = deployments * replicas + MEMBERS + 1
    async with session(server) as http:
        await _create(http, "/api/v1/namespaces", {"metadata": {"name": namespace}})
        version = (await _get(http, pods))["metadata"]["resourceVersion"]
        disturbing = asyncio.create_task(disturb(rng, found, kills, pause_s))
        began = monotonic()
        for path, body in steps(random.Random(rng.random()), namespace, deployments, replicas):
            await _create(http, path, body)
            await asyncio.sleep(0.02)
        jobs = await ask_for_moves(http, namespace, deployments, began + within_s) if moves else []
        done = await disturbing
        while True:
            items = (await _get(http, pods))["items"]
            running = sum(entry["status"].get("phase") == "Running" for entry in items)
            phases, left = await _moves(http, jobs) if jobs else ([], 0)
            if running == wanted and not left and set(phases) <= set(ENDED):
                break
            if monotonic() - began > within_s:
                raise SystemExit(
                    f"bench.chaos: after {within_s:g} s {running} of {wanted} pods run ({len(items)} exist), moves "
                    f"are {dict(Counter(phases))}, {left} of their reservations hold room; {dict(done)}"
                )
            await asyncio.sleep(0.1)
        took_s = monotonic() - began
        moved = await _moved(http, pods, version)
        nodes = (await _get(http, "/api/v1/nodes"))["items"]
        everywhere = (await _get(http, "/api/v1/pods"))["items"]
    wrong = [f"{len(items)} pods instead of {wanted}"] if len(items) != wanted else []
    wrong += [f"pod {uid} was bound twice" for uid in moved] + overcommitted(nodes, everywhere)
    if wrong:
        raise SystemExit("bench.chaos: " + "; ".join(wrong))
    return {"pods": wanted, "seconds": took_s, "moved": phases.count("Succeeded"), **dict(sorted(done.items()))}


async def _moves(http: aiohttp.ClientSession, names: list[str]) -> tuple[list[str], int]:
    """The phases of these PodMigrationJobs, and how many of their reservations hold room that nobody uses. A job
    that was deleted has ended.
    """
    jobs = [entry for entry in (await _get(http, JOBS))["items"] if entry["metadata"]["name"] in names]
    phases = [job.get("status", {}).get("phase", "Pending") for job in jobs]
    uids = {job["metadata"]["uid"] for job in jobs}  # a reservation of a job has its UID as name
    held = sum(
        entry["metadata"]["name"] in uids and entry.get("status", {}).get("phase") not in ENDED
        for entry in (await _get(http, RESERVATIONS))["items"]
    )
    return phases, held


def overcommitted(nodes: list[dict[str, Any]], pods: list[dict[str, Any]]) -> list[str]:
    """Nodes whose pods request more milli-CPU than they have."""
    used: Counter[str] = Counter()
    for pod in pods:
        for container in pod["spec"]["containers"]:
            text = container.get("resources", {}).get("requests", {}).get("cpu", "0")
            used[pod["spec"].get("nodeName", "")] += _milli(text)
    return [
        f"{node['metadata']['name']} holds {used[node['metadata']['name']]}m of CPU"
        for node in nodes
        if used[node["metadata"]["name"]] > _milli(node["status"]["allocatable"]["cpu"])
    ]


def balances(store: Path) -> tuple[int, int]:
    """How many accounts a journal of credit has, and the sum of their balances in milli-credits."""
    arguments = ("credit", "list", "--store", str(store), "--json")
    listed = subprocess.run([sys.executable, "-m", "cotenant", *arguments], capture_output=True, check=True, timeout=60)
    found = msgspec.json.decode(listed.stdout)
    return len(found), sum(entry["balance_milli"] for entry in found)


def _milli(text: str) -> int:
    return int(text.removesuffix("m")) if text.endswith("m") else int(float(text) * 1000)


async def _moved(http: aiohttp.ClientSession, pods: str, version: str) -> list[str]:
    """UIDs of pods whose node changed since, by the watch's history."""
    where: dict[str, str] = {}
    moved = []
    query = {"watch": "1", "resourceVersion": version, "timeoutSeconds": "1"}
    async with http.get(pods, params=query) as answer:
        async for line in answer.content:
            change = msgspec.json.decode(line)
            if change["type"] not in ("ADDED", "MODIFIED"):
                continue
            uid, node = change["object"]["metadata"]["uid"], change["object"]["spec"].get("nodeName", "")
            if where.get(uid, node) != node:
                moved.append(uid)
            if node:
                where[uid] = node
    return moved


async def _get(http: aiohttp.ClientSession, path: str) -> Any:
    async with http.get(path) as answer:
        return msgspec.json.decode(await answer.read())


async def _create(http: aiohttp.ClientSession, path: str, body: dict[str, Any]) -> None:
    async with http.post(path, data=msgspec.json.encode(body)) as answer:
        if answer.status >= 300:
            raise SystemExit(f"bench.chaos: POST {path}: {answer.status} {(await answer.text())[:300]}")
        await answer.read()


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--nodes", type=int, default=50)
    parser.add_argument("--deployments", type=int, default=6)
    parser.add_argument("--replicas", type=int, default=20)
    parser.add_argument("--kills", type=int, default=6, help="kills and pauses a round")
    parser.add_argument("--pause-s", type=float, default=2.0, help="most seconds between two, and of a pause")
    parser.add_argument("--within-s", type=float, default=180.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    rng, rows = random.Random(options.seed), []
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(Path(folder), options.nodes, "--manager", "--rebalancer", "--credit", "--traces")
        try:
            for number in range(options.rounds):
                row = asyncio.run(
                    a_round(
                        cluster.server,
                        lambda: children(cluster.process.pid),
                        rng,
                        f"round-{number}",
                        deployments=options.deployments,
                        replicas=options.replicas,
                        kills=options.kills,
                        pause_s=options.pause_s,
                        within_s=options.within_s,
                    )
                )
                rows.append({"round": number, **row})
        finally:
            cluster.stop()
        accounts, sum_milli = balances(Path(folder) / "credit.db")
        if sum_milli:
            raise SystemExit(
                f"bench.chaos: {accounts} accounts of credit are {sum_milli} milli-credits together, not 0"
            )
    print(f"{accounts} accounts of credit, zero together", file=sys.stderr)
    show(rows, options.json, [f"seed {options.seed}"])


if __name__ == "__main__":
    main()
