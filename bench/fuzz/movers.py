"""Readers of the rebalancer and of credit: the objects that they watch, the rebalancer's configuration, and reported
incidents.

Both are run as their processes run them, less HTTP and writes: the rebalancer plans a round and advances its jobs now
and then, credit computes the tenants' use.
Limits: the plan is made for one look, so the anomaly condition is not exercised; nothing is carried out, so jobs go on
only by the objects that the fuzzer delivers.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any, cast

import msgspec

from bench.fuzz.inputs import texts_like
from bench.fuzz.reader import Clock, CollectedWatches, Reader
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.kinds.custom.elastic_quota import ELASTIC_QUOTAS, read_quota
from cotenant.drivers.kube.kinds.custom.migration_job import MIGRATION_JOBS, read_migration_job
from cotenant.drivers.kube.kinds.custom.node_metric import NODE_METRICS, read_node_metric
from cotenant.drivers.kube.kinds.custom.reservation import RESERVATIONS, ReservationReader
from cotenant.drivers.kube.kinds.pod.reader import PodReader
from cotenant.drivers.kube.kinds.pod.schema import PODS
from cotenant.engine.migration.migrations import Migrations
from cotenant.engine.rebalancer.arbiter import ClusterArbiter
from cotenant.model.errors import InvalidInput
from cotenant.policy.placement.profiles import profile
from cotenant.services.credit.facts import ClusterFacts
from cotenant.services.kube_process.watches import ObjectHandler
from cotenant.services.rebalancer.configuration import DEFAULT, parse_settings
from cotenant.services.rebalancer.planning import ClusterReading

_READ = {
    "nodes",
    "pods",
    "nodemetrics",
    "reservations",
    "replicasets",
    "poddisruptionbudgets",
    "podmigrationjobs",
}  # the other kinds are the scheduler's, read by the same code
_PROFILE = "cotenant-requests"
_CONFIGURATION = Path(__file__).resolve().parents[2] / "deploy" / "rebalancer" / "descheduler.yaml"


def rebalancer_readers() -> list[Reader]:
    """One for each kind that the rebalancer watches, and one of its configuration."""
    watches, clock, placing = CollectedWatches(), Clock(), profile(_PROFILE)
    reading = ClusterReading(
        cast(Client, None), watches, placing, {"cotenant": placing}, DEFAULT, None, clock.now, once=True
    )
    migrations = Migrations(
        ClusterArbiter(reading.cluster, DEFAULT, reading.planner.replicas, reading.notes),
        lambda key: None,
        lambda node, resource: reading.planner.use.percent(node, resource, clock.now()),
        DEFAULT.acting.migration,
    )
    watches.handle(MIGRATION_JOBS, ObjectHandler(read_migration_job, migrations.job_seen, migrations.job_gone))
    watches.handle(
        RESERVATIONS,
        ObjectHandler(ReservationReader().read, migrations.reservation_seen, migrations.reservation_gone),
    )

    def decide() -> None:
        reading.plan()
        migrations.decide(clock.now())

    def job(document: Any, rng: Random) -> None:
        document["spec"] = {
            "podRef": {"namespace": "default", "name": f"pod{rng.randrange(12)}"},
            "mode": rng.choice(("ReservationFirst", "EvictDirectly")),
            "ttl": rng.choice(("5m", "0s", "x")),
            "paused": rng.random() < 0.1,
        }

    found = watches.readers("rebalancer", clock, decide, {MIGRATION_JOBS.plural: job}, part=0.1)
    return [
        *(reader for reader in found if reader.name.split()[1].split(".")[0] in _READ),
        Reader(
            "rebalancer configuration",
            texts_like(_CONFIGURATION.read_bytes()),
            lambda text: parse_settings(text, "file"),
            (InvalidInput,),
            0.1,
        ),
    ]


def credit_readers() -> list[Reader]:
    """One for each kind that credit watches."""
    watches, clock, reader = CollectedWatches(), Clock(), PodReader()
    facts = ClusterFacts(clock.now)
    watches.handle(ELASTIC_QUOTAS, ObjectHandler(read_quota, facts.quota_seen, facts.quota_gone))
    watches.handle(PODS, ObjectHandler(reader.pod, facts.pod_seen, facts.pod_gone))
    watches.handle(NODE_METRICS, ObjectHandler(read_node_metric, facts.metric_seen, facts.metric_gone))

    def decide() -> None:
        msgspec.json.encode([str(use) for use in facts.uses()])

    return watches.readers("credit", clock, decide, part=0.1)
