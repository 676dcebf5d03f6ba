"""What a process needs to be one shard of several, made before it runs."""

from __future__ import annotations

from collections.abc import Callable

from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.kinds.pod.reader import PodReader
from cotenant.drivers.kube.leaderelection.election import Timing
from cotenant.drivers.kube.leaderelection.lease import awake_or_asleep_s
from cotenant.engine.cluster import Cluster
from cotenant.services.kube_process.kube_process import KubeProcess
from cotenant.services.kube_process.leadership import Leadership
from cotenant.services.kube_process.replica import Replica
from cotenant.services.scheduler.shards.agreement import Agreement
from cotenant.services.scheduler.shards.fence import ShardFence
from cotenant.services.scheduler.shards.pods_of_shard import PodsOfShard
from cotenant.services.scheduler.shards.shard import Shard
from cotenant.services.scheduler.shards.slot_election import SlotElection


class Sharding:
    """`slots` replicas act at most; the Leases have the replica's names."""

    def __init__(self, slots: int, replica: Replica, timing: Timing) -> None:
        self._slots = slots
        self._replica = replica
        self._timing = timing
        self._election: SlotElection | None = None

    @property
    def slot(self) -> int:
        """That of the present term."""
        return self._election.slot if self._election is not None else -1

    def elected(self, client: Client) -> Leadership:
        """The candidacy for any slot; each election has a client of its own, which no other request delays."""
        replica = self._replica
        self._election = SlotElection(
            client, replica.connect, replica.namespace, replica.lease, self._slots, replica.identity, self._timing
        )
        return self._election

    def shard(
        self,
        client: Client,
        cluster: Cluster,
        pods: PodsOfShard,
        reader: PodReader,
        schedulers: tuple[str, ...],
        pods_version: Callable[[], int],
        kube: KubeProcess,
    ) -> Shard:
        """The shard of a process."""
        replica = self._replica
        agreement = Agreement(client, replica.namespace, replica.lease, awake_or_asleep_s, self._timing)
        fence = ShardFence(client, reader, schedulers, pods.groups)
        return Shard(
            cluster,
            pods,
            agreement,
            fence,
            replica.identity,
            pods_version,
            lambda: kube.leads,
            kube.wake,
            now=awake_or_asleep_s,
        )
