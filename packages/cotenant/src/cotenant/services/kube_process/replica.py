"""How every process that acts under a Lease starts: its listener, its identity and its candidacy, by the options
that all of them have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from cotenant.drivers.http.address import Address, ListeningSocket, bind
from cotenant.drivers.kube.client.access import Access
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.leaderelection.election import Timing
from cotenant.services.kube_process.identity import replica_identity
from cotenant.services.kube_process.leadership import Leadership, leadership
from cotenant.services.running import raise_descriptors


class ReplicaArguments(Protocol):
    """The options of a replica."""

    @property
    def leader_elect(self) -> bool:
        """Whether it competes for the Lease at all."""
        ...

    @property
    def lease_namespace(self) -> str:
        """Empty: that of the access."""
        ...

    @property
    def state_dir(self) -> str | None:
        """See `identity_folder`."""
        ...


@dataclass(frozen=True, slots=True)
class Replica:
    """One replica before it runs."""

    access: Access
    listening: ListeningSocket
    namespace: str  # of the Lease
    lease: str
    identity: str
    component: str
    election: Timing
    competes: bool

    def elected(self, _: Client) -> Leadership:
        """Its candidacy, through a client of its own, which no other request delays."""
        return leadership(self.connect, self.namespace, self.lease, self.identity, self.election, elect=self.competes)

    def connect(self) -> Client:
        """A client of the election."""
        agent = f"{self.component}/leader-election"
        return Client(self.access, qps=float("inf"), burst=10, in_flight=2, user_agent=agent)


def open_replica(
    request: ReplicaArguments,
    access: Access,
    address: Address,
    component: str,
    election: Timing,
    lease: str = "",
) -> Replica:
    """Bind the address and take an identity. `lease`: by default the component's name. Raises `InvalidInput` for an
    address in use.
    """
    raise_descriptors()
    listening = bind(address)  # an address in use is reported before anything that takes seconds
    namespace, lease = request.lease_namespace or access.namespace, lease or component
    identity = replica_identity(request.state_dir, access.server, namespace, lease)
    return Replica(access, listening, namespace, lease, identity, component, election, competes=request.leader_elect)
