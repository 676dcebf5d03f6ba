"""What is frozen is not evicted, and what thaws is, by the objects that a cluster's watch hands on."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from cotenant.engine.autonomy.permissions import Permissions
from cotenant.model.autonomy.autonomy import Action, Autonomy, AutonomyRung, Blackout, Freeze
from cotenant.model.machine.node_decision import EvictPod, Reason
from cotenant.services.agent.actions.evictions import ApiEvictor


class Api:
    def __init__(self) -> None:
        self.evicted: list[str] = []
        self.grace_s: int | None = None

    async def evict(self, namespace: str, pod: str, uid: str = "", *, grace_s: int | None = None) -> None:
        self.evicted.append(f"{namespace}/{pod}")
        self.grace_s = grace_s


def pod(namespace: str) -> EvictPod:
    return EvictPod(uid="u", key=f"{namespace}/a", reason=Reason("recovery", "it disturbs another"))


def test_a_freeze_of_a_namespace_stops_its_evictions_only_and_a_thaw_lets_them_go_on() -> None:
    permissions, api = Permissions(), Api()
    evictions = ApiEvictor(api, held=lambda name: permissions.held(Action.RECOVERY, (name,), 100.0).get(name, ""))
    permissions.seen(Autonomy("freeze", frozenset({"shop"}), freeze=Freeze("checkout is down", "eve")))
    assert asyncio.run(evictions.evict(pod("shop"))) == (False, "not now: frozen by eve: checkout is down")
    assert asyncio.run(evictions.evict(pod("batch")))[0]
    permissions.gone("freeze")
    assert asyncio.run(evictions.evict(pod("shop")))[0]
    assert api.evicted == ["batch/a", "shop/a"]


def test_the_time_to_leave_in_is_asked_for() -> None:
    api = Api()
    for grace_s in (20, None):
        assert asyncio.run(ApiEvictor(api).evict(replace(pod("ml"), grace_s=grace_s)))[0]
        assert api.grace_s == grace_s


def test_recovery_is_held_by_ceilings_windows_and_freezes_that_are_about_it() -> None:
    permissions = Permissions()
    assert permissions.held(Action.RECOVERY, ("a", "b"), 0.0) == {}
    permissions.seen(Autonomy("sizes", actions=frozenset({Action.SIZES}), freeze=Freeze("x")))
    assert permissions.held(Action.RECOVERY, ("a",), 0.0) == {}
    permissions.seen(Autonomy("low", frozenset({"a"}), ceiling=AutonomyRung.SUGGEST))
    permissions.seen(Autonomy("sale", blackouts=(Blackout(10.0, 20.0, "sale"),)))
    assert permissions.held(Action.RECOVERY, ("a", "b"), 0.0) == {"a": "Autonomy low allows suggest at most"}
    assert set(permissions.held(Action.RECOVERY, ("a", "b"), 15.0)) == {"a", "b"}


def test_before_the_objects_are_known_nothing_is_begun() -> None:
    known = False
    permissions = Permissions(lambda: known)
    assert permissions.held(Action.RECOVERY, ("a",), 0.0) == {"a": "the cluster's Autonomy objects are not known yet"}
    assert permissions.of(Action.MOVES, "a", 0.0).is_frozen
    known = True
    assert permissions.held(Action.RECOVERY, ("a",), 0.0) == {}
    assert permissions.of(Action.MOVES, "a", 0.0).may_act
