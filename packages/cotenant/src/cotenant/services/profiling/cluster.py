"""WorkloadProfiles of a cluster, for a command: list, get, and write what a run measured.

A command asks once and ends. One request a question, with the rights of the user's kubeconfig; what a run measured
replaces `status.measured` and nothing else.
Limits: no paging, a cluster has few profiles.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from cotenant.drivers.kube.client.access import load_access
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.errors import NotFound
from cotenant.drivers.kube.kinds.custom.workload_profile import (
    WORKLOAD_PROFILES,
    WorkloadProfileObject,
    axes_fields,
    read_workload_profile,
)
from cotenant.model.cluster.workload_profile import WorkloadProfile
from cotenant.model.errors import InvalidInput, Permanent
from cotenant.services.profiling.ladder import NOT_PART_READING, LadderResult

T = TypeVar("T")
_NONE = "the cluster has no kind WorkloadProfile: cotenant crds | kubectl apply --server-side -f -"


class _List(msgspec.Struct):
    items: list[WorkloadProfileObject] = []


@dataclass(frozen=True, slots=True)
class ProfileClient:
    """Of one cluster."""

    kubeconfig: Path | None = None
    context: str = ""

    def all(self, namespace: str = "") -> list[WorkloadProfile]:
        """Every profile, by key; no namespace = of all. Raises `Permanent` where the kind is not installed."""

        async def ask(client: Client) -> list[WorkloadProfile]:
            try:
                body = await client.request("GET", WORKLOAD_PROFILES.path(namespace))
            except NotFound as error:
                raise Permanent(_NONE) from error
            found = msgspec.json.decode(body, type=_List).items
            return sorted((read_workload_profile(entry) for entry in found), key=lambda profile: profile.key)

        return self._ask(ask)

    def one(self, key: str) -> WorkloadProfile:
        """One profile. Raises `InvalidInput` for a name that the cluster does not have."""
        namespace, name = split(key)

        async def ask(client: Client) -> WorkloadProfile:
            try:
                return read_workload_profile(await client.get(WORKLOAD_PROFILES, namespace, name))
            except NotFound as error:
                raise InvalidInput(
                    "PROFILE", key, "a WorkloadProfile of the cluster", "`cotenant profile list` has them"
                ) from error

        return self._ask(ask)

    def store(self, profile: WorkloadProfile, result: LadderResult, signal: str, node: str, at: str) -> None:
        """Write what a run measured; axes that were not part of it keep what an earlier run measured."""
        namespace, name = split(profile.key)
        axes = {
            axis: profile.measured.get(axis, now) if now == NOT_PART_READING else now
            for axis, now in result.axes.items()
        }
        measured = {"at": at, "node": node, "signal": signal, "axes": axes_fields(axes)}

        async def write(client: Client) -> None:
            await client.set_status(WORKLOAD_PROFILES, namespace, name, profile.uid, {"measured": measured}, keeps=True)

        self._ask(write)

    def _ask(self, question: Callable[[Client], Awaitable[T]]) -> T:
        access = load_access(self.kubeconfig, self.context)

        async def run() -> T:
            async with Client(access, qps=50.0, burst=10, in_flight=2, user_agent="cotenant-profile") as client:
                return await question(client)

        return asyncio.run(run())


def split(key: str) -> tuple[str, str]:
    """Namespace and name. Raises `InvalidInput`."""
    namespace, slash, name = key.partition("/")
    if not (namespace and slash and name) or "/" in name:
        raise InvalidInput("PROFILE", key, "NAMESPACE/NAME")
    return namespace, name
