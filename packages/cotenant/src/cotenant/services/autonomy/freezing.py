"""Freezes, thaws, and what is allowed: requests with the rights of whoever asks.

A freeze is one object, so it is in force as soon as it is stored, and every mover that watches has it within the time
of one event. A second freeze has its reason and its author take the place of the first's, and adds what it covers: no
freeze thaws anything. Where their namespaces or actions differ, all pairs of both are frozen; whoever may not read what
stands freezes everything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from cotenant.drivers.kube.client.access import load_access
from cotenant.drivers.kube.client.client import MERGE_PATCH, Client
from cotenant.drivers.kube.client.errors import AlreadyExists, Forbidden, NotFound
from cotenant.drivers.kube.kinds.custom.autonomy import API_VERSION, AUTONOMIES, KIND, read_autonomy
from cotenant.model.autonomy.autonomy import Action, Autonomy, Freeze
from cotenant.model.errors import InvalidInput, Permanent

T = TypeVar("T")
FREEZE = "freeze"  # name of the object
_NONE = "the cluster has no kind Autonomy: cotenant crds | kubectl apply --server-side -f -"


@dataclass(frozen=True, slots=True)
class AutonomyClient:
    """Of one cluster."""

    kubeconfig: Path | None = None
    context: str = ""

    def all(self) -> Sequence[Autonomy]:
        """Every object, by name. Raises `Permanent` where the kind is not installed."""

        async def ask(client: Client) -> Sequence[Autonomy]:
            return sorted(map(read_autonomy, await client.all_of(AUTONOMIES)), key=lambda found: found.name)

        return self._ask(ask)

    def freeze(self, why: str, by: str, namespaces: Sequence[str] = (), actions: Sequence[str] = ()) -> None:
        """Stop acting. Raises `InvalidInput` for an unknown kind of acting, or without a reason."""
        self._ask(lambda client: freeze(client, why, by, namespaces, actions))

    def thaw(self) -> bool:
        """Let the movers act again; whether they were frozen by `freeze`."""
        return self._ask(thaw)

    def _ask(self, question: Callable[[Client], Awaitable[T]]) -> T:
        access = load_access(self.kubeconfig, self.context)

        async def run() -> T:
            async with Client(access, qps=50.0, burst=10, in_flight=2, user_agent="cotenant-autonomy") as client:
                try:
                    return await question(client)
                except NotFound as error:
                    raise Permanent(_NONE) from error

        return asyncio.run(run())


async def freeze(
    client: Client, why: str, by: str, namespaces: Sequence[str] = (), actions: Sequence[str] = ()
) -> None:
    """Stop acting. Raises `InvalidInput` for an unknown kind of acting, or without a reason."""
    if not why.strip():
        raise InvalidInput("--why", why, "a reason, for those who find it")
    for action in actions:
        if action not in set(Action):
            raise InvalidInput("--action", action, ", ".join(Action))
    spec = _spec(why, by, namespaces, actions)
    body = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": FREEZE}}
    known = {name: value for name, value in spec.items() if value is not None}
    try:
        await client.create(AUTONOMIES, "", {**body, "spec": known})
    except AlreadyExists:
        try:
            there = [found for found in map(read_autonomy, await client.all_of(AUTONOMIES)) if found.name == FREEZE]
        except Forbidden:
            there = [Autonomy(FREEZE, freeze=Freeze(""))]
        for found in there:  # one without a freeze, or gone meanwhile, has nothing to add
            if found.freeze is not None:
                spec = _spec(why, by, _both(namespaces, found.namespaces), _both(actions, found.actions))
        await client.patch(AUTONOMIES, "", FREEZE, {"spec": spec}, content_type=MERGE_PATCH)


def _both(asked: Sequence[str], there: Collection[str]) -> Sequence[str]:
    """What is asked for and what is frozen already; empty = all."""
    return sorted({*asked, *map(str, there)}) if asked and there else ()


def _spec(why: str, by: str, namespaces: Sequence[str], actions: Sequence[str]) -> Mapping[str, object]:
    """In a merge patch, None takes a field away: all of them are meant."""
    return {
        "freeze": {"why": why, "by": by},
        "namespaces": list(namespaces) or None,
        "actions": list(actions) or None,
    }


async def thaw(client: Client) -> bool:
    """Let the movers act again; whether they were frozen by `freeze`."""
    found = {known.name for known in map(read_autonomy, await client.all_of(AUTONOMIES))}
    if FREEZE not in found:
        return False
    await client.delete(AUTONOMIES, "", FREEZE)
    return True
