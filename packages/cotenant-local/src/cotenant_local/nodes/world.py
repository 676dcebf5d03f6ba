"""The world model of the simulated nodes: resource usage, slowdown, missed objectives, finished work. No I/O; time is
an argument.

Pods placed by a real scheduler through a real API must use CPU and memory, slow one another and miss objectives as the
lab's published model says, or a demo of it proves nothing. The lab's records and compiled laws (`physics.py`), with
pods that come and go. `speed` simulated seconds pass per real second. The day starts at its trough when the world is
created. Rows of services and tenants without pods are reused, so memory follows the pods that exist.
Limits: all nodes have one size (the lab's contention is calibrated for that); work done before a restart is computed
from the container's start at full speed; a service that had no pod for a moment draws new noise of its load.
"""

from __future__ import annotations

from math import ceil, inf, isfinite, nextafter, sqrt

import numpy as np

from cotenant.model.cluster.report import NodeReport
from cotenant.model.errors import InvalidInput, Permanent
from cotenant_lab.world.config import WorldConfig
from cotenant_lab.world.latency import p99_table
from cotenant_lab.world.state import FINISHED, FUTURE, READY, RUNNING, UNREPORTED, law
from cotenant_local.nodes import physics
from cotenant_local.nodes.behaviour import NO_OBJECTIVE, SimulatedBehaviour, SimulatedPodBehaviour
from cotenant_local.nodes.node_reports import node_reports
from cotenant_local.nodes.observations import Ended, PodUsage, ReplicaQueue, ServiceView, TickSnapshot
from cotenant_local.nodes.world_state import FIRST, NamedRows, empty, more_nodes, more_pods, more_services, more_tenants

MIN_SHARE = 0.01  # of its CPU, that a limited pod keeps
_ENDLESS_WORK_S = 1e12  # work of a pod that never ends


class LiveWorld:
    """Nodes, the pods on them, and time."""

    def __init__(self, config: WorldConfig, speed: float, epoch_s: float, seed: int = 0) -> None:
        """`config` gives the nodes' size and the laws (its workload does not matter). Raises `InvalidInput`."""
        if not (isfinite(speed) and speed > 0):
            raise InvalidInput("speed", speed, "simulated seconds per second, more than 0")
        self.config = config
        self.speed = speed
        self._epoch_s = epoch_s
        self._rng = np.random.default_rng(seed)
        self._law = law(config)
        self._node_row: dict[str, int] = {}
        self._node_names: list[str] = []
        self._pod_row: dict[str, int] = {}
        self._uids: list[str] = [""] * FIRST
        self._free = list(range(FIRST - 1, -1, -1))
        self._services = NamedRows()
        self._tenants = NamedRows()
        self._noise = np.zeros(FIRST)  # by service, as the next
        self._shape = np.zeros((FIRST, 3))  # peak, swing, phase
        self._shares: dict[str, float] = {}  # of what a limited batch pod would use
        self._state = empty()
        self._next_tick_s = config.tick_s

    def prepare(self) -> None:
        """Compile the laws (ten seconds once per machine, then a fraction of a second from the cache); may run in
        another thread.
        """
        trial = LiveWorld(self.config, self.speed, 0.0)
        trial.add_node("node")
        work = SimulatedBehaviour(use_cores=1.0, duration_s=self.config.tick_s)
        trial.start(
            "pod", "node", SimulatedPodBehaviour(1000, 1 << 30, "", "", work, NO_OBJECTIVE, self.config.tick_s, 0), 0.0
        )
        trial.start(
            "other",
            "node",
            SimulatedPodBehaviour(1000, 1 << 30, "", "", work, NO_OBJECTIVE, self.config.tick_s, 0),
            0.0,
        )
        trial.stop("other", 0.0)
        trial.advance(3.0 * self.config.tick_s / self.speed)
        trial.power_off("node", 4.0 * self.config.tick_s / self.speed)

    # --- time

    def simulated(self, now_s: float) -> float:
        """Simulated seconds since the start."""
        return max(0.0, (now_s - self._epoch_s) * self.speed)

    def _real(self, t: float) -> float:
        """The first moment at which `t` simulated seconds have passed: before it, nothing would be due."""
        at = self._epoch_s + t / self.speed
        while isfinite(at) and self.simulated(at) < t:
            at = nextafter(at, inf)
        return at

    def next_at(self) -> float:
        """When `advance` is next needed, Unix time: the next completion or the next tick."""
        return self._real(min(float(self._state.tree[1]), self._next_tick_s))

    def start_day(self, now_s: float) -> None:
        """Let a day start now: the simulated clock goes forward to the next midnight. Raises `Permanent` where pods
        run, whose work would be skipped.
        """
        if self._pod_row:
            raise Permanent("a simulated day can only be started while no pod runs")
        horizon_s = self.config.horizon_s
        midnight_s = ceil(max(self.simulated(now_s), float(self._state.run.now_s[0])) / horizon_s) * horizon_s
        physics.run_until(self._state, self._law, midnight_s)
        self._epoch_s = now_s - midnight_s / self.speed
        self._next_tick_s = midnight_s + self.config.tick_s

    def advance(self, now_s: float) -> Ended:
        """Advance the world to `now_s`. Returns the pods that ended."""
        until, s = self.simulated(now_s), self._state
        while self._next_tick_s <= until:
            physics.run_until(s, self._law, self._next_tick_s)
            if (
                until - self._next_tick_s < 5.0 * self.config.tick_s
            ):  # after a long pause only the last ticks are simulated
                self._change_load(self._next_tick_s)
                physics.tick(s, self._law, self._next_tick_s)
            self._next_tick_s += self.config.tick_s
        physics.run_until(s, self._law, until)
        return self._ended()

    def _ended(self) -> Ended:
        s = self._state
        done, out = int(s.run.finished[0]), int(s.run.evicted[0])
        if not (done or out):
            return Ended()
        # a row that was freed or reused meanwhile has another status
        finished = tuple(self._uids[p] for p in s.finished[:done] if s.pods.status[p] == FINISHED)
        evicted = tuple(
            self._uids[p] for p in dict.fromkeys(s.evicted[:out].tolist()) if s.pods.status[p] == UNREPORTED
        )
        s.run.finished = 0
        s.run.evicted = 0
        for uid in (*finished, *evicted):
            self._release(uid)
        return Ended(finished, evicted)

    def _change_load(self, t: float) -> None:
        used = len(self._services)
        if not used:
            return
        config = self.config
        peak, swing, phase = self._shape[:used].T
        keep = config.load_noise_memory
        steps = config.load_noise_sd * self._rng.standard_normal(used)
        self._noise[:used] = keep * self._noise[:used] + sqrt(1.0 - keep * keep) * steps
        day = t / config.horizon_s
        shape = 1.0 - swing * 0.5 * (1.0 + np.cos(2.0 * np.pi * (day - phase)))
        self._state.load[:used, 0] = peak * shape * np.exp(self._noise[:used])

    # --- nodes

    def add_node(self, name: str) -> None:
        """Add a node, or power a known one on again."""
        row = self._node_row.get(name)
        if row is None:
            row = self._node_row[name] = len(self._node_names)
            self._node_names.append(name)
            if row >= len(self._state.nodes):
                self._state = more_nodes(self._state, 2 * row)
        self._state.nodes.up[row] = True
        self._state.nodes.updated_s[row] = float(self._state.run.now_s[0])

    def power_off(self, name: str, now_s: float) -> None:
        """Power a node off; the work of its pods is lost."""
        row = self._node_row.get(name)
        if row is None or not self._state.nodes.up[row]:
            return
        here = np.flatnonzero((self._state.pods.node == row) & (self._state.pods.status == RUNNING))
        physics.power_off(self._state, row, max(self.simulated(now_s), float(self._state.nodes.updated_s[row])))
        self._state.report[row] = np.nan
        for p in here:
            self._release(self._uids[p])

    # --- pods

    def start(self, uid: str, node: str, behaviour: SimulatedPodBehaviour, now_s: float, done_s: float = 0.0) -> None:
        """Start a pod's containers. `done_s`: simulated seconds of work already done. A known pod is restarted."""
        if uid in self._pod_row:
            self.stop(uid, now_s)
        row = self._node_row[node]
        p = self._take_row(uid)
        self._describe(p, behaviour)
        t = max(self.simulated(now_s), float(self._state.nodes.updated_s[row]))
        done = min(max(0.0, done_s), float(self._state.pods.duration_s[p]) * (1.0 - 1e-9))
        physics.start(self._state, self._law, p, row, t, done)

    def stop(self, uid: str, now_s: float) -> None:
        """Stop a pod's containers; unknown pods are ignored."""
        p = self._pod_row.get(uid)
        if p is None:
            return
        s = self._state
        if s.pods.status[p] == RUNNING:
            row = int(s.pods.node[p])
            physics.stop(s, self._law, p, max(self.simulated(now_s), float(s.nodes.updated_s[row])))
        self._release(uid)

    def limit(self, uid: str, cores: float, now_s: float) -> None:
        """Let a batch pod use at most so many cores of what it would use in the mean; inf ends the limit. Others
        are ignored.
        """
        p, s = self._pod_row.get(uid), self._state
        if p is None or s.pods.status[p] != RUNNING or s.pods.service[p] >= 0 or s.pods.use_cores[p] <= 0.0:
            return
        before = self._shares.pop(uid, 1.0)
        wanted = float(s.pods.use_cores[p]) / before
        share = min(1.0, max(MIN_SHARE, cores / wanted))
        if share < 1.0:
            self._shares[uid] = share
        if share != before:
            row = int(s.pods.node[p])
            t = max(self.simulated(now_s), float(s.nodes.updated_s[row]))
            physics.slow_down(s, self._law, p, share / before, t)

    def wanted_cores(self, uid: str) -> float:
        """What a batch pod would use in the mean without a limit; 0 where it is none."""
        p, s = self._pod_row.get(uid), self._state
        if p is None or s.pods.service[p] >= 0:
            return 0.0
        return float(s.pods.use_cores[p]) / self._shares.get(uid, 1.0)

    def queue(self, uid: str) -> ReplicaQueue | None:
        """What a service's requests meet at a replica now; None where it does not serve yet, or is no service."""
        usage, p = self.usage(uid), self._pod_row.get(uid)
        if usage is None or p is None or not usage.service or usage.p99_ms is None:
            return None
        of = self._state.services[int(self._state.pods.service[p])]
        return ReplicaQueue(int(of.cores), usage.cpu_cores, usage.slowdown * float(of.time_s), usage.slowdown)

    def knows(self, uid: str) -> bool:
        """Whether the pod runs."""
        return uid in self._pod_row

    def _describe(self, p: int, behaviour: SimulatedPodBehaviour) -> None:
        pods, truth = self._state.pods, behaviour.truth
        pods[p] = 0
        pods.cpu_milli[p] = behaviour.cpu_milli
        pods.memory_bytes[p] = behaviour.memory_bytes
        pods.tenant[p] = self._tenant(behaviour.tenant)
        pods.stage[p] = -1
        pods.use_cores[p] = truth.use_cores
        pods.use_memory[p] = truth.use_memory_bytes
        pods.sensitivity[p] = truth.sensitivity * self.config.interference
        pods.pressure[p] = truth.pressure
        pods.duration_s[p] = min(behaviour.run_s, _ENDLESS_WORK_S)
        pods.imbalance[p] = 1.0
        pods.service[p] = -1
        if behaviour.is_service and behaviour.run_s >= _ENDLESS_WORK_S:
            pods.service[p] = self._service(behaviour)
            pods.imbalance[p] = float(np.exp(self.config.replica_imbalance_sd * self._rng.standard_normal()))
        pods.swing_phase[p] = self._rng.random()
        pods.status[p] = READY
        for name in ("node", "next", "previous", "map_node"):
            pods[name][p] = -1
        pods.slowdown[p] = 1.0
        pods.started_s[p] = np.nan

    def _service(self, behaviour: SimulatedPodBehaviour) -> int:
        truth = behaviour.truth
        row, is_new = self._services.use(behaviour.service)
        if is_new:
            if row >= len(self._state.services):
                self._state = more_services(self._state, 2 * row)
                self._shape = np.concatenate([self._shape, np.zeros((row, 3))])
                self._noise = np.concatenate([self._noise, np.zeros(row)])
            self._noise[row] = self.config.load_noise_sd * self._rng.standard_normal()
        s = self._state
        s.services.cores[row] = truth.workers
        s.services.time_s[row] = truth.service_time_s
        s.services.objective[row] = behaviour.objective
        s.services.table_row[row] = truth.workers - 1
        if np.isnan(s.p99_table[truth.workers - 1, 0]):
            s.p99_table[truth.workers - 1] = p99_table(np.array([truth.workers], dtype=np.int64))[0]
        # replicas = 0: each replica has its own load, however many there are
        s.services.replicas[row] = truth.replicas or int(s.services.live[row]) + 1
        self._shape[row] = truth.peak_erlangs, truth.swing, truth.phase
        if s.load[row, 0] == 0.0:
            day = float(s.run.now_s[0]) / self.config.horizon_s
            s.load[row, 0] = truth.peak_erlangs * (
                1.0 - truth.swing * 0.5 * (1.0 + np.cos(2 * np.pi * (day - truth.phase)))
            )
        return row

    def _tenant(self, name: str) -> int:
        row, _ = self._tenants.use(name)
        if row >= len(self._state.tenants):
            self._state = more_tenants(self._state, 2 * row)
        return row

    def _take_row(self, uid: str) -> int:
        if not self._free:
            size = len(self._uids)
            self._uids += [""] * size
            self._state = more_pods(self._state, 2 * size)
            self._free = list(range(2 * size - 1, size - 1, -1))
        p = self._free.pop()
        self._pod_row[uid] = p
        self._uids[p] = uid
        return p

    def _release(self, uid: str) -> None:
        p = self._pod_row.pop(uid, None)
        self._shares.pop(uid, None)
        if p is not None:
            service = int(self._state.pods.service[p])
            if service >= 0 and self._state.services.objective[service] >= NO_OBJECTIVE:
                self._state.services.replicas[service] = max(1, int(self._state.services.live[service]))
            if service >= 0 and self._services.leave(service):
                self._state.services[service] = 0
                self._state.load[service, 0] = 0.0
                self._shape[service] = 0.0
            tenant = int(self._state.pods.tenant[p])
            if self._tenants.leave(tenant):
                self._state.tenants[tenant] = 0
            self._uids[p] = ""
            self._state.pods.status[p] = FUTURE
            self._free.append(p)

    # --- observations

    def reports(self, now_s: float) -> list[NodeReport]:
        """The reports that the agents of powered-on nodes would send; empty before the first tick."""
        return node_reports(self._state, self.config, self._node_names, now_s)

    def usage(self, uid: str) -> PodUsage | None:
        """The measured usage of one pod; None if it is not running."""
        p = self._pod_row.get(uid)
        return None if p is None or self._state.pods.status[p] != RUNNING else self._usage(p)

    def pod_usage(self, uid: str) -> tuple[float, float] | None:
        """Cores and bytes that a pod uses now; None if it is not running."""
        p = self._pod_row.get(uid)
        if p is None or self._state.pods.status[p] != RUNNING:
            return None
        pod = self._state.pods[p]
        return float(pod.busy_cores), float(pod.use_memory)

    def node_usage(self, name: str) -> tuple[float, float]:
        """Cores and bytes that a node's pods use now. Raises KeyError if it was never added."""
        node = self._state.nodes[self._node_row[name]]
        config = self.config
        return float(node.used_share) * config.node_cores, float(node.memory_share) * config.node_memory_bytes

    def _usage(self, p: int) -> PodUsage:
        s = self._state
        pod = s.pods[p]
        service = int(pod.service)
        has = service >= 0 and s.services.objective[service] < NO_OBJECTIVE
        objective_ms = float(s.services.objective[service] * s.services.time_s[service] * 1000.0) if has else None
        is_measured = has and pod.seen_ratio > 0.0 and pod.placed_s + self._law.replica_start_s <= s.run.last_tick_s[0]
        return PodUsage(
            uid=self._uids[p],
            node=self._node_names[int(pod.node)],
            cpu_cores=float(pod.busy_cores),
            memory_bytes=float(pod.seen_memory),
            slowdown=float(pod.slowdown),
            service=self._services.names[service] if service >= 0 else "",
            p99_ms=float(pod.seen_ratio) * objective_ms if is_measured and objective_ms is not None else None,
            objective_ms=objective_ms,
        )

    def snapshot(self) -> TickSnapshot:
        """The cluster at the last tick."""
        s, config = self._state, self.config
        n = len(self._node_names)
        up = s.nodes.up[:n]
        ups = max(1, int(up.sum()))
        with_objective = [
            u
            for p in self._pod_row.values()
            if s.pods.status[p] == RUNNING
            and s.pods.service[p] >= 0
            and s.services.objective[int(s.pods.service[p])] < NO_OBJECTIVE
            and (u := self._usage(p)) is not None
        ]
        by_service: dict[str, list[PodUsage]] = {}
        for usage in with_objective:
            by_service.setdefault(usage.service, []).append(usage)
        return TickSnapshot(
            day=float(s.run.now_s[0]) / config.horizon_s,
            nodes=n,
            nodes_up=int(up.sum()),
            cpu_used=float(s.nodes.used_share[:n][up].sum()) / ups,
            cpu_requested=float(s.nodes.requested_milli[:n][up].sum()) / (ups * config.node_cores * 1000.0),
            memory_used=float(s.nodes.memory_share[:n][up].sum()) / ups,
            memory_requested=float(s.nodes.requested_bytes[:n][up].sum()) / (ups * float(config.node_memory_bytes)),
            services=tuple(
                ServiceView(
                    name=name,
                    replicas=len(found),
                    violated=sum(u.violated for u in found),
                    worst_p99_ms=max(u.p99_ms or 0.0 for u in found),
                    objective_ms=found[0].objective_ms or 0.0,
                )
                for name, found in sorted(by_service.items())
            ),
            victims=tuple(u for u in with_objective if u.violated),
            pods=len(self._pod_row),
            batch_pace=self._batch_pace() / (ups * config.node_cores),
        )

    def _batch_pace(self) -> float:
        """Cores: each running batch pod's use alone on its node, times its speed."""
        pods = self._state.pods
        running = pods[(pods.status == RUNNING) & (pods.service < 0)]
        return float((running.use_cores * running.speed).sum())
