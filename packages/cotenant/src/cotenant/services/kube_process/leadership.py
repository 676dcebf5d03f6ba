"""Which replica works: one of several by a Lease, or the only one.

Two replicas that both act contradict each other, and a test or a local cluster with one replica should not need a
Lease. A process asks a `Leadership` and does not know which kind it has; `leadership` makes the one that the command
line asks for.
Limits: a Lease is held per name and namespace; replicas with different names do not exclude each other.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.leaderelection.election import Timing
from cotenant.services.kube_process.election_thread import ThreadedElection


class Leadership(Protocol):
    """The right to act, shared with other replicas (drivers/kube/leaderelection/lease.py)."""

    @property
    def leading(self) -> bool:
        """Whether this replica may act now. False as soon as the lease could have expired, whatever the server says."""
        ...

    @property
    def lapses(self) -> int:
        """How often it stopped leading because the lease was not renewed in time, and nobody else had taken it."""
        ...

    def standing(self) -> str:
        """Why this replica does not lead, for a person; empty while it leads."""
        ...

    async def run(self, work: Callable[[], Awaitable[None]], changed: Callable[[], None] = lambda: None) -> bool:
        """Campaign, then work during the term. True when the work ended by itself, False when another leads and the
        work was cancelled.

        In a term `leading` may turn False, and True again: `changed` is called then, and the work must write nothing in
        between. When cancelled: cancel the work, wait for it, then release the lease.
        """
        ...


class Alone:
    """The only replica: it always leads."""

    leading = True
    lapses = 0

    def standing(self) -> str:
        """It always leads."""
        return ""

    async def run(self, work: Callable[[], Awaitable[None]], changed: Callable[[], None] = lambda: None) -> bool:
        """Work until it ends."""
        await work()
        return True


def leadership(
    connect: Callable[[], Client],
    namespace: str,
    lease: str,
    identity: str,
    timing: Timing | None = None,
    *,
    elect: bool,
) -> Leadership:
    """`ThreadedElection` for the Lease `namespace/lease`, or `Alone` where `elect` is False. `timing`: None = the
    defaults.

    `connect` makes the client of the election, on its thread.
    """
    return ThreadedElection(connect, namespace, lease, identity, timing) if elect else Alone()
