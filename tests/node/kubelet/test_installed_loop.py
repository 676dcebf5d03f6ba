"""The whole loop as it is installed: a service burns its budget because of a Job, the Job is named and held, and the
recovery is proven, beside the stand-in for the kubelet; and with the guard on, what the guard did is told.

Real agent without privileges, keeper, trace process and API server; a service whose latency is measured and sent as
spans; hogs in real groups. With the guard off the ladder is what ends the trouble. The node is one CPU with far more
weight than all else on this machine, and what the cluster has elsewhere runs on another CPU: the service is calm alone,
also on a busy machine. It asks for next to nothing, so that its class has the weight of the hogs' and gets half of the
CPU, of which it needs more: any scheduler lets its latency grow. How long the steps take is printed, not asserted.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest
from tests.fakes.node.kubelet.kubelet import Settings
from tests.fakes.node.kubelet.node import apart_on, v1_node
from tests.fakes.waiting import eventually
from tests.node.kubelet.installed import Installed, installed

from cotenant.cli.main import main
from cotenant.drivers.cgroup.layout import CgroupLayout
from cotenant.model.errors import CotenantError

pytestmark = pytest.mark.slow
T = TypeVar("T")
RATE, WORK_MS, STEPS, REQUEST_M = 60.0, 10.0, 4, 1
BELOW_MS = 200.0  # alone 60 to 150, with the hogs more with every second
CALM = 15  # periods: enough to know what is usual
WITHIN_S = 150.0
LOOK_S = 0.5  # each look is work for the agent
SHARES = "262144"  # the most
# Koordinator's formula lends what others leave of the machine, which is next to nothing.
GUARD = {"suppress": {"enabled": False}}


@pytest.fixture
def everything(layout: CgroupLayout, request: pytest.FixtureRequest) -> Iterator[Installed]:
    """A node of its own, and what is installed there and in the cluster; without the guard, unless a case asks for
    it.
    """
    if layout.version("cpu") != 1 or layout.version("cpuset") != 1:
        pytest.skip("this machine's controllers are not on cgroup v1")
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("needs a CPU for the node and another one")
    folder = Path(tempfile.mkdtemp(prefix="cotenant-test-"))
    folder.chmod(0o755)
    top = f"cotenant-test-loop-{os.getpid()}"
    try:
        with (
            apart_on(f"{top}-apart", cpus[0], SHARES) as apart,
            v1_node(top, folder, Settings(cpus=(cpus[-1],))) as node,
        ):
            (folder / "cpuset" / "cpuset.cpus").write_text(str(cpus[-1]))
            (folder / "cpu" / "cpu.shares").write_text(SHARES)
            node.kubelet.start()
            with installed(node, apart, best_effort_cpu=getattr(request, "param", False)) as made:
                yield made
    finally:
        shutil.rmtree(folder)


def story(everything: Installed) -> dict[str, Any]:
    """The service's, by its agent; empty while the agent does not know it."""
    try:
        found: dict[str, Any] = everything.agent.client.get("/v1/explain", service="shop/cart")
    except CotenantError:
        return {"incidents": [], "text": []}
    return found


def says(everything: Installed, words: str) -> bool:
    return any(words in line for line in story(everything)["text"])


def eventually_told(everything: Installed, what: str, found: Callable[[], T | None]) -> T:
    """As `eventually`; an error has the whole story."""
    try:
        return cast(T, eventually(what, found, WITHIN_S, interval_s=LOOK_S))
    except AssertionError as error:
        raise AssertionError("\n".join((str(error), *story(everything)["text"]))) from None


def becomes_calm(everything: Installed, request_m: int = REQUEST_M) -> str:
    """The service runs, and enough is known of it while nothing troubles it. Its pod's UID."""
    agent = everything.agent
    uid = everything.service(RATE, WORK_MS, STEPS, request_m)
    everything.objective(BELOW_MS)

    def is_known() -> bool:
        return any(f" ms against {BELOW_MS:g} ms" in line for line in story(everything)["text"])

    eventually("the agent has the service's latency", is_known, WITHIN_S, interval_s=LOOK_S)
    calm_since = agent.ticks()

    def is_calm() -> bool:
        """Its start may have been trouble, too."""
        nonlocal calm_since
        if any(entry["ended_us"] is None for entry in story(everything)["incidents"]):
            calm_since = agent.ticks()
        return agent.ticks() >= calm_since + CALM

    eventually("calm samples are known, and no trouble is left", is_calm, WITHIN_S, interval_s=LOOK_S)
    return uid


def test_a_job_that_burns_a_services_budget_is_named_held_and_the_recovery_proven(
    everything: Installed, capsys: pytest.CaptureFixture[str]
) -> None:
    becomes_calm(everything)
    hogs = everything.job(4)
    began = time.monotonic()

    def shown() -> dict[str, Any] | None:
        """The incident of the Job, once a limit of it has helped and the service is well."""
        for entry in story(everything)["incidents"]:
            helped = any(proof["helped"] for proof in entry["proofs"])
            if entry["workload"] == "Job shop/hogs" and helped and entry["recovered_after_us"] is not None:
                return entry
        return None

    found = eventually_told(everything, "the Job is named, held, and the recovery proven", shown)
    with capsys.disabled():
        print(f"\nproven {time.monotonic() - began:.1f} s after the hogs' start")
    assert found["culprit"] in {f"shop/hogs-{number}" for number in range(4)}
    assert are_held(everything, hogs)
    capsys.readouterr()
    eventually("the trace process has the story", lambda: everything.pages.stories("shop/cart"))
    assert main(["explain", "service", "shop/cart", "--traces", everything.pages.url]) == 0
    told = " ".join(capsys.readouterr().out.split())  # lines end where the terminal does
    assert "caused by Job shop/hogs" in told
    assert "for Job shop/hogs helped" in told
    eventually("the objective has Events of it", lambda: {"CulpritHeld", "ActionHelped"} <= reasons(everything))
    stays_held_through_a_restart_and_pods_that_come_and_go(everything, hogs)


@pytest.mark.parametrize("everything", [GUARD], indirect=True)
def test_with_the_guard_on_it_is_told_who_was_held_by_whom_and_why(
    everything: Installed, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whether the guard is in time, or the ladder acts, too: who ran is named as held or as the cause."""
    becomes_calm(everything)
    everything.job(4)
    began = time.monotonic()

    def shown() -> dict[str, Any] | None:
        """The incident of the Job, once the service is well."""
        for entry in story(everything)["incidents"]:
            held = [name for name, _ in (entry["restraint"] or {"held": ()})["held"]]
            if "Job shop/hogs" in (*held, entry["workload"], entry["owner"]):
                return entry if entry["recovered_after_us"] is not None else None
        return None

    found = eventually_told(everything, "the service is well, and it is told why", shown)
    with capsys.disabled():
        print(f"\n{found['stage']}, {found['cause']}, told {time.monotonic() - began:.1f} s after the hogs' start")
    assert found["restraint"]["by"] == "the guard"
    assert found["restraint"]["why"].startswith("guard ")
    for words in ("the guard held all best-effort work", "the guard holds all best-effort work on this node at"):
        eventually_told(everything, words, partial(says, everything, words))


@pytest.mark.parametrize("everything", [GUARD], indirect=True)
def test_a_service_that_requests_nothing_is_not_held_with_the_hogs_beside_it(everything: Installed) -> None:
    """The kubelet has it in the class of the best-effort pods: a limit of the class would stop it, too."""
    service = becomes_calm(everything, request_m=0)
    hogs = everything.job(4)

    def held() -> bool:
        return are_held(everything, hogs)

    eventually("the hogs are held, one by one", held, WITHIN_S, interval_s=LOOK_S)
    assert not everything.node.has_quota(service)
    assert service in everything.node.best_effort()


def reasons(everything: Installed) -> set[str]:
    """Of the Events on the objective."""
    items = everything.api.items("/api/v1/namespaces/shop/events")
    return {event["reason"] for event in items if event["involvedObject"]["name"] == "cart-latency"}


def are_held(everything: Installed, hogs: list[str]) -> bool:
    """Whether each of the Job's pods has less than the CPU that it asked for: the ladder's limit, not its own."""
    return all((cores := everything.node.cores_of(uid)) is not None and cores < 0.5 for uid in hogs)


def stays_held_through_a_restart_and_pods_that_come_and_go(everything: Installed, hogs: list[str]) -> None:
    """The kubelet restarts, and a pod comes and goes in each of several periods of the agent: whenever it is
    looked, the hogs are held.
    """
    node, agent = everything.node, everything.agent
    looks: list[bool] = []
    node.restart()
    for number in range(5):
        (uid,) = everything.job(1, f"short-{number}", ("sleep", "1000000"))
        until = agent.ticks() + 1

        def has_decided(until: float = until) -> bool:
            looks.append(are_held(everything, hogs))
            return agent.ticks() >= until

        eventually("the agent decides", has_decided, interval_s=0.1)
        everything.remove(f"short-{number}-0", uid)
    assert node.failures == []
    assert node.kubelet.said == []
    assert looks.count(False) <= len(looks) // 100, looks
