"""The moves of a pod as a person reads them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.fakes.servers.scripted_server import Reply, ScriptedServer

from cotenant.drivers.kube.client.access import Access
from cotenant.drivers.kube.client.credentials import Credential, FixedCredential
from cotenant.services.rebalancer.explaining import PodMove, moves_of


def job(name: str, pod: str, created: str, **status: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "uid": f"u-{name}",
            "creationTimestamp": created,
            "annotations": {"koordinator.sh/evict-reason": "n1 is hot"},
        },
        "spec": {"podRef": {"namespace": "shop", "name": pod}},
        "status": status,
    }


def condition(kind: str, status: str, message: str, at: str) -> dict[str, Any]:
    return {"type": kind, "status": status, "message": message, "lastTransitionTime": at}


def moves(*jobs: dict[str, Any], name: str = "web", body: dict[str, Any] | None = None) -> tuple[PodMove, ...]:
    async def main() -> tuple[PodMove, ...]:
        listed = {"items": list(jobs)} if body is None else body
        async with ScriptedServer({"GET": [Reply(200, listed)]}) as server:
            access = Access(server.url, FixedCredential(Credential("")))
            found = await asyncio.to_thread(moves_of, access, "shop", name, 30.0)
            assert [path.partition("?")[0] for _, path in server.asked] == [
                "/apis/scheduling.koordinator.sh/v1alpha1/podmigrationjobs"
            ]
            return found

    return asyncio.run(main())


def test_moves_are_told_in_the_order_of_their_last_steps() -> None:
    done = job(
        "a", "web", "2026-01-01T00:00:00Z", phase="Succeeded", nodeName="n1",
        podRef={"namespace": "shop", "name": "web-2"},
        conditions=[
            condition("ReservationScheduled", "True", "on n2", "2026-01-01T00:01:00Z"),
            condition("BoundPodReady", "True", "", "2026-01-01T00:05:00Z"),
            condition("Helped", "True", "cpu 80 % to 60 %", "2026-01-01T09:00:00Z"),  # says nothing of the move's end
        ],
    )  # fmt: skip
    waiting = job("b", "web", "2026-01-01T00:04:00Z", phase="Pending")
    other = job("c", "db", "2026-01-01T00:00:00Z", phase="Pending")
    found = moves(done, waiting, other)
    assert [(one.job, one.at) for one in found] == [("b", "2026-01-01T00:04:00Z"), ("a", "2026-01-01T00:05:00Z")]
    moved = found[1]
    assert (moved.pod, moved.replacement, moved.node, moved.target) == ("shop/web", "shop/web-2", "n1", "n2")
    assert (moved.why, moved.helped, moved.figures, moved.outcome) == ("n1 is hot", "True", "cpu 80 % to 60 %", "")
    assert moved.effect == "it helped: cpu 80 % to 60 %"
    assert (found[0].replacement, found[0].target, found[0].helped, found[0].effect) == ("", "", "", "")
    assert [one.job for one in moves(done, waiting, other, name="web-2")] == ["a"]  # it is the one's replacement


def test_a_move_that_failed_says_why_and_has_no_target() -> None:
    steps = [condition("ReservationScheduled", "False", "on n2", "2026-01-01T00:01:00Z")]
    (found,) = moves(
        job("a", "web", "2026-01-01T00:00:00Z", phase="Failed", reason="Timeout", message="no room", conditions=steps)
    )
    assert (found.target, found.outcome, found.phase) == ("", "Timeout: no room", "Failed")


def test_an_answer_that_is_no_list_is_said() -> None:
    with pytest.raises(Exception, match="PodMigrationJobs"):
        moves(body={"items": 3})


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"phase": "Succeeded"}, "ns/p was moved from n1"),
        ({"phase": "Succeeded", "target": "n2"}, "ns/p was moved from n1 to n2"),
        ({"phase": "Succeeded", "replacement": "ns/q"}, "ns/p was moved from n1 as ns/q"),
        ({"phase": "Failed", "outcome": "full"}, "ns/p was to be moved from n1 and was not: full"),
        ({"phase": "Running"}, "ns/p is being moved from n1"),
        ({"phase": "Pending", "node": ""}, "ns/p is to be moved"),
        ({"phase": "Pending", "node": "", "why": "hot"}, "ns/p is to be moved; why: hot"),
    ],
)
def test_a_move_in_a_sentence(changed: dict[str, str], words: str) -> None:
    plain = {
        "job": "j", "at": "", "phase": "", "pod": "ns/p", "replacement": "", "node": "n1", "target": "", "why": "",
        "outcome": "", "helped": "", "figures": "",
    }  # fmt: skip
    assert PodMove(**(plain | changed)).words == words


@pytest.mark.parametrize(
    ("helped", "effect"),
    [
        ("True", "it helped: f"),
        ("False", "it did not help: f"),
        ("Unknown", "whether it helped is not known: f"),
        ("", ""),
    ],
)
def test_what_a_move_changed_in_a_sentence(helped: str, effect: str) -> None:
    assert PodMove("j", "", "", "ns/p", "", "n1", "", "", "", helped, "f").effect == effect
