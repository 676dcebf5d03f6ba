"""Pods in virtual machines of this node: which are asked for, and whose signals are kept."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from cotenant.model.machine.replica_signal import MaxAction, ReplicaSignal
from cotenant.services.zones.agent_pods import ZonePods


def entry(uid: str = "u", kind: str = "service", ready: bool = True) -> dict[str, Any]:
    return {"kind": kind, "uid": uid, "namespace": "shop", "fullName": f"full-{uid}", "ready": ready}


def zone(folder: Path, name: str, pods: dict[str, Any] | None, state: str = "running", pid: int | None = None) -> None:
    found: dict[str, Any] = {"zone": name, "state": state, "pid": os.getpid() if pid is None else pid}
    (folder / f"{name}.json").write_text(json.dumps(found if pods is None else {**found, "pods": pods}))


def signal(objective: str = "shop/fast") -> ReplicaSignal:
    return ReplicaSignal(
        objective, "shop/web", "shop/full-u", "u", 1000, 10_000, MaxAction.OBSERVE, False, 10_000_000, 100, 3, 5, 9
    )


def test_services_of_zones_that_run_are_asked_for(tmp_path: Path) -> None:
    zone(tmp_path, "box", {"web": entry(), "job": entry("j", "batch"), "plain": entry("")})
    zone(tmp_path, "gone", {"web": entry("g")}, state="gone")
    zone(tmp_path, "dead", {"web": entry("d")}, pid=1 << 30)
    zone(tmp_path, "host", None)
    pods = ZonePods(lambda: tmp_path)
    assert pods.traced() == [("shop/full-u", "u")]
    (page,) = pods.page(0)
    assert (page.zone, page.pod, page.uid, page.name, page.ready, page.signals) == (
        "box", "web", "u", "shop/full-u", True, (),
    )  # fmt: skip


def test_signals_of_those_are_kept_and_of_no_others(tmp_path: Path) -> None:
    zone(tmp_path, "box", {"web": entry()})
    pods = ZonePods(lambda: tmp_path)
    assert not pods.reported("u", signal(), 0)  # it was not asked for yet
    pods.traced()
    assert pods.reported("u", signal(), 0)
    assert not pods.reported("other", signal(), 0)
    ((kept,),) = [page.signals for page in pods.page(0)]
    assert (kept.objective, kept.bad) == ("shop/fast", 3)


def test_what_is_withdrawn_or_gone_is_dropped(tmp_path: Path) -> None:
    zone(tmp_path, "box", {"web": entry(), "db": entry("w")})
    pods = ZonePods(lambda: tmp_path)
    pods.traced()
    for by in ("shop/full-u", "u"):  # by its name in spans, or its UID
        pods.reported("u", signal(), 0)
        pods.reported("w", signal(), 0)
        pods.withdrawn(by, "shop/fast")
        assert {page.uid: len(page.signals) for page in pods.page(0)} == {"u": 0, "w": 1}
    pods.reported("u", signal("shop/other"), 0)
    pods.withdrawn("u", "shop/fast")  # another objective
    assert {page.uid: len(page.signals) for page in pods.page(0)} == {"u": 1, "w": 1}
    zone(tmp_path, "box", {"db": entry("w", ready=False)})
    pods.traced()
    (left,) = pods.page(0)
    assert (left.uid, left.ready) == ("w", False)
    zone(tmp_path, "box", {"web": entry(), "db": entry("w")})
    pods.traced()
    assert {page.uid: len(page.signals) for page in pods.page(0)} == {"u": 0, "w": 1}
