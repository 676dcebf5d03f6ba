"""The answers about moves and profiles: from the objects in the cluster, unfinished moves first, the figure that
counts.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from tests.fakes.processes.console_objects import SORT, WEB, move, profile

from cotenant.drivers.kube.client.errors import NotFound
from cotenant.drivers.kube.kinds.custom.migration_job import MigrationJobObject, read_migration_job
from cotenant.drivers.kube.kinds.custom.workload_profile import WorkloadProfileObject, read_workload_profile
from cotenant.model.cluster.workload_profile import ProfileAxis
from cotenant.model.errors import InvalidInput
from cotenant.model.groups.migration import JobPhase
from cotenant.services.console.fleet import MeasuredFleet
from cotenant.services.console.pod_rows import pod_row
from cotenant.services.console.views.moves import STATES, MoveBoard, MoveList
from cotenant.services.console.views.profiles import Profiles

from ..test_fleet import pod


def moves(*jobs: dict[str, Any], fleet: MeasuredFleet | None = None) -> MoveBoard:
    found = MoveBoard(fleet or MeasuredFleet())
    for k, job in enumerate(jobs):
        job["metadata"] |= {"uid": f"u{k}", "creationTimestamp": f"2026-01-01T00:00:{k:02}Z"}
        found.seen(read_migration_job(msgspec.convert(job, MigrationJobObject)))
    return found


def asked(section: MoveBoard | Profiles, *names: str, **query: str) -> Any:
    """As the page gets it."""
    return msgspec.json.decode(msgspec.json.encode(asyncio.run(section.answer(names, query))))


def test_unfinished_moves_come_first_and_each_state_is_counted_and_found() -> None:
    found = moves(
        move("helped", "shop/a", JobPhase.SUCCEEDED, helped="True"),
        move("in-vain", "shop/b", JobPhase.SUCCEEDED, helped="False"),
        move("failed", "shop/c", JobPhase.FAILED, status_reason="Timeout", message="no room"),
        move("aborted", "shop/d", JobPhase.ABORTED),
        move("planned", "shop/e"),
        move("running", "shop/f", JobPhase.RUNNING),
    )
    page = asked(found)
    assert {entry["name"] for entry in page["moves"][:2]} == {"planned", "running"}
    assert page["counts"] == {"all": 6, "open": 2, "succeeded": 2, "failed": 2, "helped": 1, "not_helped": 1}
    for state in filter(None, STATES):
        of = page["counts"][state.replace("-", "_")]
        assert asked(found, state=state)["count"] == of, state
    assert asked(found, q="SHOP/C")["moves"][0]["outcome"] == "Timeout: no room"
    assert len(asked(found, limit="1")["moves"]) == 1
    found.gone("planned")
    assert asked(found)["counts"]["open"] == 1


def test_a_move_has_its_prediction_verdict_and_steps() -> None:
    one = asked(moves(move("m", "shop/a", JobPhase.SUCCEEDED, helped="True")), "m")
    assert (one["node"], one["to"], one["phase"], one["helped"]) == ("node-1", "node-2", "Succeeded", "True")
    assert [entry["resource"] for entry in one["effects"]] == ["cpu", "memory"]
    assert one["effects"][0] == {
        "resource": "cpu",
        "node_before": 82.0,
        "node_after": 66.5,
        "target_before": 31.0,
        "target_after": 46.5,
    }
    assert "fell from 82%" in one["figures"]
    assert one["ended"] - one["steps"][0]["at"] == 18
    assert one["steps"][0]["type"] == "ReservationScheduled"


def test_a_job_without_a_prediction_says_where_its_pod_is_now() -> None:
    fleet = MeasuredFleet()
    fleet.pod_seen(pod_row(pod("a", "node-7")))
    one = asked(moves(move("m", "default/a", note=None, is_ours=False), fleet=fleet), "m")
    assert (one["node"], one["to"], one["effects"], one["ended"]) == ("node-7", "", [], None)


@pytest.mark.parametrize("query", [{"state": "mad"}, {"limit": "0"}, {"limit": "²"}, {"limit": "501"}])
def test_bad_questions_are_refused(query: dict[str, str]) -> None:
    with pytest.raises(InvalidInput):
        asked(moves(), **query)


def test_unknown_names_are_not_found() -> None:
    for section, names in ((moves(), ("none",)), (moves(), ("a", "b")), (Profiles(), ("none",))):
        with pytest.raises(NotFound):
            asked(section, *names)
    assert MoveList(**asked(moves())).count == 0


def test_profiles_have_every_axis_with_a_figure_or_a_reason() -> None:
    section = Profiles()
    for name, values in (("web", WEB), ("sort", SORT)):
        section.seen(read_workload_profile(msgspec.convert(profile("shop", name, values), WorkloadProfileObject)))
    page = asked(section)
    assert [entry["profile"] for entry in page] == ["shop/sort", "shop/web"]
    web = {entry["name"]: entry for entry in page[1]["axes"]}
    assert list(web) == [axis.value for axis in ProfileAxis]
    assert web["cpu"]["sensitivity"] == {"value": 640, "low": 580, "high": 700, "samples": 40, "source": "learned"}
    assert "cannotTell" in web["disk"]["tendency"]
    section.gone("shop/web")
    assert len(asked(section)) == 1
