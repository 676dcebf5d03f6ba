"""Submits a workload to the API as the simulated day passes.

Jobs arrive at their times, and a stage may start only when the previous one has completed. One task that sleeps until
the next arrival; completions come from the Jobs' informer. When the day is over the next begins, with new batch work
for the same services. Existing objects are left as they are, so a restart resumes from the API's state.
Limits: a restart begins a new day; jobs that were running then do not get their remaining stages.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field

from cotenant.drivers.kube.manifests.errors import ApiError, Manifest
from cotenant.model.errors import InvalidInput
from cotenant_local.apiserver.contract import RequestTarget, WriteOptions
from cotenant_local.controllers.runtime.actions import JOBS
from cotenant_local.controllers.runtime.informer import Informers
from cotenant_local.controllers.views.workloads import JobView
from cotenant_local.controllers.workloads.job import finished
from cotenant_local.nodes.fleet import NodeSize
from cotenant_local.workloads.script import DAY_S, BatchJob, Script, job_manifest, priority_classes, script

MAX_CONCURRENT = 32
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Progress:
    """Counts of what has been submitted so far."""

    services: int = 0
    replicas: int = 0
    jobs: int = 0
    stages: int = 0
    pods: int = 0
    completed_stages: int = 0
    refused: int = 0


@dataclass(slots=True)
class _Chain:
    job: BatchJob
    deadline_at_s: float
    left: deque[int] = field(default_factory=deque)


class Submitter:
    """Submits one workload to a cluster."""

    def __init__(
        self,
        informers: Informers,
        workload: str,
        nodes: int,
        shape: NodeSize,
        *,
        seed: int = 1,
        speed: float = 1.0,
        load: float | None = None,
        scheduler: str = "cotenant",
        is_lent: bool = False,
        clock: Callable[[], float] = time.time,
        days: int | None = None,
    ) -> None:
        """`is_lent`: jobs request batch resources. `days`: number of simulated days to submit; None means without
        end. Raises `InvalidInput`.
        """
        if not speed > 0:
            raise InvalidInput("speed", speed, "simulated seconds per second, more than 0")
        self._script: Script = script(workload, nodes, shape, seed, load, scheduler)
        self._arguments = (workload, nodes, shape, seed, load, scheduler)
        self._informers = informers
        self._api = informers.api
        self._speed = speed
        self._scheduler = scheduler
        self._is_lent = is_lent
        self._clock = clock
        self._days = days
        self._chains: dict[str, _Chain] = {}  # by the name of the running stage
        self._tasks: set[asyncio.Task[None]] = set()
        self._options = WriteOptions(validation="Strict", manager="cotenant-workload")
        self.progress = Progress()

    @property
    def namespace(self) -> str:
        """The namespace of all submitted objects."""
        return self._script.namespace

    @property
    def services(self) -> tuple[Manifest, ...]:
        """The Deployments of the workload."""
        return self._script.services

    async def start(self) -> None:
        """Submit the services and begin the day; returns when the services have been created."""
        await self._create(
            "", "namespaces", "", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}}
        )
        for obj in priority_classes():
            await self._create("scheduling.k8s.io", "priorityclasses", "", obj)
        services = self._script.services
        for at in range(0, len(services), MAX_CONCURRENT):
            batch = services[at : at + MAX_CONCURRENT]
            await asyncio.gather(*(self._create("apps", "deployments", self.namespace, s) for s in batch))
        self.progress.services = len(services)
        self.progress.replicas = self._script.replicas
        self._informers.of(JOBS).subscribe(self._job_changed)
        self._spawn(self._run_days())

    async def stop(self) -> None:
        """Stop submitting; submitted objects stay."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run_days(self) -> None:
        day = 0
        while self._days is None or day < self._days:
            if day:
                workload, nodes, shape, seed, load, scheduler = self._arguments
                self._script = await asyncio.to_thread(script, workload, nodes, shape, seed, load, scheduler, day)
            began = self._clock()
            for job in self._script.jobs:
                await self._sleep_until(began + job.arrival_s / self._speed)
                chain = _Chain(job, began + job.deadline_s / self._speed, deque(range(len(job.stages))))
                self.progress.jobs += 1
                self._spawn(self._next_stage(chain))
            await self._sleep_until(began + DAY_S / self._speed)
            day += 1

    async def _sleep_until(self, at_s: float) -> None:
        while (left := at_s - self._clock()) > 0:
            await asyncio.sleep(min(left, 60.0))

    async def _next_stage(self, chain: _Chain) -> None:
        if not chain.left:
            return
        stage = chain.job.stages[chain.left.popleft()]
        self._chains[stage.name] = chain
        obj = job_manifest(stage, self.namespace, self._scheduler, chain.deadline_at_s, self._speed, self._is_lent)
        if await self._create("batch", "jobs", self.namespace, obj):
            self.progress.stages += 1
            self.progress.pods += stage.pods

    def _job_changed(self, old: JobView | None, new: JobView | None) -> None:
        seen = new or old
        if seen is None or seen.metadata.namespace != self.namespace:
            return
        end = finished(seen)
        if end is None:
            return
        chain = self._chains.pop(seen.metadata.name, None)
        if chain is not None and end.type == "Complete":
            self.progress.completed_stages += 1
            self._spawn(self._next_stage(chain))

    async def _create(self, group: str, plural: str, namespace: str, obj: Manifest) -> bool:
        """Create an object. Returns whether it exists now; a refusal is counted and logged, and the rest of the
        workload continues.
        """
        for wait_s in (0.2, 1.0, 5.0, None):
            try:
                target = self._api.target(group, plural)
                await self._api.create(RequestTarget(target.resource, namespace), dict(obj), self._options)
                return True
            except ApiError as error:
                if error.code == 409:
                    return True
                if error.code < 500 or wait_s is None:
                    self.progress.refused += 1
                    _log.warning("%s %s: %s", plural, obj["metadata"]["name"], error)
                    return False
                await asyncio.sleep(wait_s)
        return False

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
