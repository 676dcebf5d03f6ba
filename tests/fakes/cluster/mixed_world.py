"""A small cluster in which everything meets (gangs, reservations, quotas, devices, CPUs, rules between pods,
budgets, preemption), with random events, and a comparison of whole engines.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import zip_longest
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import numpy as np
from tests.fakes.cluster.cpu_cluster import tells
from tests.fakes.cluster.reservation_world import World, node, pod, reservation, web

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Evict, Instruction, Preempt
from cotenant.engine.framework.settings import EngineSettings
from cotenant.engine.plugins.quotas.plugin import Quotas
from cotenant.engine.plugins.quotas.settings import QuotaSettings
from cotenant.engine.registry import PluginRegistry
from cotenant.engine.rules.load.rules import LoadAware
from cotenant.engine.state.pod_kind import PodKind
from cotenant.model.cluster.affinity import PodTerm, SpreadConstraint, WhenUnsatisfiable
from cotenant.model.cluster.demands import NO_DEMANDS, Demands
from cotenant.model.cluster.labels import HOSTNAME, Labels, LabelSelector
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import DisruptionBudget, ObservedPod
from cotenant.model.cluster.qos import PriorityClass, QoSClass
from cotenant.model.devices.device import Device, DeviceType
from cotenant.model.devices.inventory import NodeDevices
from cotenant.model.groups.gang import GangMode, GangNotes, MatchPolicy, PodGroup, PodGroupStatus
from cotenant.model.groups.quota import NAME, ROOT_QUOTA, Quota, QuotaObject
from cotenant.model.groups.reservation import AllocatePolicy, PreAllocation
from cotenant.model.groups.reservation_notes import ReservationAffinity
from cotenant.model.machine.node_metric import NodeMetric, Use
from cotenant.model.resources import GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO, NOTHING, NVIDIA_GPU, Amounts
from cotenant.policy.placement.load_aware.settings import LoadAwareSettings
from cotenant.policy.placement.profiles import profile

NODES = 5
_LSR = {"qos": QoSClass.LSR, "priority": 9500, "priority_class": PriorityClass.NONE}
_HALF = "example.com/half"


class MixedWorld(World):
    """See `World`; victims are deleted at once. Two worlds of one seed see the same events."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.rng = rng = np.random.default_rng(seed)
        self._number = 0
        quotas = Quotas(QuotaSettings(revoke_after_s=5.0, status_every_s=2.0))
        load = LoadAware(LoadAwareSettings()) if rng.random() < 0.3 else LoadAware()
        self.cluster = Cluster(
            profile("least-allocated"),
            np.random.default_rng(1),
            EngineSettings(),
            PluginRegistry(quotas=quotas, load_aware=load),
        )
        self.reservations = self.cluster.plugins.reservations
        for i in range(NODES):
            self.cluster.node_seen(self._node(i))
        for i in range(2):
            whole = Amounts.of({GPU_CORE: 100, GPU_MEMORY_RATIO: 100, GPU_MEMORY: 1000})
            self.devices(NodeDevices(f"n{i}", tuple(Device(DeviceType.GPU, k, whole, id=f"{i}{k}") for k in range(2))))
            self.cpus(tells(f"n{i}"))
        if rng.random() < 0.5:
            for name, least, most in (("red", 6000, 14_000), ("blue", 4000, 30_000)):
                made = Quota(name, Amounts.of({"cpu": most}), Amounts.of({"cpu": least}), ROOT_QUOTA)
                quotas.quota_seen(QuotaObject(f"default/{name}", f"uid-{name}", made), 0.0)
        if rng.random() < 0.5:
            self.cluster.budget_seen(DisruptionBudget("default", "web", LabelSelector.of({"app": "web"}), 1))

    def _node(self, i: int, **more: Any) -> Node:
        made = node(f"n{i}", 8000)
        return replace(made, labels=Labels.of({HOSTNAME: made.name, _HALF: str(i % 2)}), **more)

    # ---- events

    def step(self) -> None:
        """One random event."""
        weights = {
            self._create_pods: 5,
            self._create_gang: 3,
            self._create_reservation: 3,
            self._delete: 3,
            self._resize_gang: 1,
            self._node_changes: 1,
            self._refused: 1,
            self._measured: 1,
            self.round: 5,
        }
        chances = np.array(list(weights.values())) / sum(weights.values())
        list(weights)[int(self.rng.choice(len(weights), p=chances))]()

    def round(self) -> tuple[Instruction, ...]:
        """Time passes, and what is due is decided and carried out."""
        self.now_s += float(self.rng.choice([0.0, 0.5, 3.0, 12.0, 70.0]))
        given: list[Instruction] = []
        for _ in range(40):
            told = self.cluster.decide(self.now_s)
            for instruction in told:
                self.carry_out(instruction)
            given += told
            if self.cluster.next_s() > self.now_s:
                break
        self.cluster.validate()
        return tuple(given)

    def carry_out(self, instruction: Instruction, answer: bool = True) -> None:
        """See `World`."""
        if isinstance(instruction, (Preempt, Evict)):
            for victim in instruction.victims if isinstance(instruction, Preempt) else (instruction.victim,):
                if victim.uid in self.pods:
                    self.delete(victim.uid.removeprefix("uid-"))
        else:
            super().carry_out(instruction, answer)

    def _name(self, of: str) -> str:
        self._number += 1
        return f"{of}{self._number}"

    def _pod(self, name: str, demands: Demands = NO_DEMANDS) -> ObservedPod:
        rng, more, also = self.rng, {}, NOTHING  # type: ignore[var-annotated]
        cpu = int(rng.choice([500, 1000, 2000, 3000]))
        if rng.random() < 0.15:
            cpu, more = 2000, dict(_LSR)
        elif rng.random() < 0.5:
            more["priority"] = int(rng.choice([0, 100, 9000]))
        if rng.random() < 0.15:
            also = Amounts.of({NVIDIA_GPU: 1})
        labels = {"app": "web"} if rng.random() < 0.4 else {"own": name} if rng.random() < 0.3 else {}
        if rng.random() < 0.5:
            labels[NAME] = str(rng.choice(["red", "blue"]))
        if rng.random() < 0.15:
            more["anti_affinity"] = (PodTerm(HOSTNAME, LabelSelector.of({"own": name})),)
        if rng.random() < 0.15:
            same = LabelSelector.of({"app": "web"})
            more["spread"] = (SpreadConstraint(_HALF, same, 2, WhenUnsatisfiable.DO_NOT_SCHEDULE),)
        return pod(name, cpu, also=also, labels=Labels.of(labels), demands=demands, created_s=self.now_s, **more)

    def _create_pods(self) -> None:
        for _ in range(int(self.rng.integers(1, 5))):
            demands = NO_DEMANDS
            if self.rng.random() < 0.05:
                demands = Demands(reservation_affinity=ReservationAffinity())
            made = self._pod(self._name("p"), demands)
            if self.rng.random() < 0.2:
                made = replace(made, node=f"n{self.rng.integers(NODES)}")
                guessed = Amounts.of({NVIDIA_GPU: 1}) if self.rng.random() < 0.15 else NOTHING
                made = replace(made, pod=replace(made.pod, requests=Amounts.of({"cpu": 100}) + guessed))
            self.see(made)

    def _create_gang(self) -> None:
        rng = self.rng
        names = [self._name("g") for _ in range(1 + (rng.random() < 0.25))]
        together = tuple(f"default/{name}" for name in names) if len(names) > 1 else ()
        for name in names:
            count = int(rng.integers(2, 5))
            least = int(rng.integers(1, count + 1)) + int(rng.random() < 0.15)
            mode = GangMode.NON_STRICT if rng.random() < 0.5 else GangMode.STRICT
            wait_s = float(rng.choice([2.0, 20.0]))
            policy = MatchPolicy.ONLY_WAITING if rng.random() < 0.2 else None
            notes = GangNotes(name, least, count, wait_s, mode, together, policy)
            if rng.random() < 0.3:
                status = PodGroupStatus(f"default/{name}", f"uid-{name}")
                group = PodGroup(f"default/{name}", f"uid-{name}", self.now_s, least, wait_s, notes, status)
                self.cluster.plugins.gangs.pod_group_seen(group, self.now_s)
            self.see(*(self._pod(f"{name}-{i}", Demands(gang=notes)) for i in range(count)))

    def _resize_gang(self) -> None:
        """One member more of a gang."""
        uid = self._some([uid for uid, seen in self.pods.items() if seen.demands.gang is not None])
        if uid:
            self.see(self._pod(self._name("more"), self.pods[uid].demands))

    def _create_reservation(self) -> None:
        rng = self.rng
        takes = PreAllocation(multiple=rng.random() < 0.5) if rng.random() < 0.25 else None
        also = Amounts.of({NVIDIA_GPU: 1}) if rng.random() < 0.2 else NOTHING
        made = reservation(
            self._name("r"),
            int(rng.choice([1000, 2000, 4000])),
            also,
            allocate_once=bool(rng.random() < 0.5),
            policy=list(AllocatePolicy)[int(rng.integers(3))],
            ttl_s=float(rng.choice([0.0, 5.0, 30.0])),
            pre_allocation=takes,
            created_s=self.now_s,
        )
        target = f"n{rng.integers(NODES)}"
        if rng.random() < 0.3:  # as of a move under way: on one node only
            made = replace(made, pod=replace(made.pod, node_selector=Labels.of({HOSTNAME: target})))
        if rng.random() < 0.2:
            made = replace(made, pod=replace(made.pod, **_LSR))
        self.see(made)
        if rng.random() < 0.5:
            self.see(web(self._name("w"), int(rng.choice([500, 1000])), created_s=self.now_s))

    def _delete(self) -> None:
        if self.rng.random() < 0.7:
            uid = self._some(list(self.pods))
            if uid:
                self.delete(uid.removeprefix("uid-"))
        else:
            uid = self._some(list(self.held))
            if uid:
                self.reservations.gone(self.held.pop(uid).name, self.now_s)

    def _node_changes(self) -> None:
        self.cluster.node_seen(self._node(int(self.rng.integers(NODES)), unschedulable=bool(self.rng.random() < 0.4)))

    def _refused(self) -> None:
        """Binds fail, or stay without an answer."""
        for instruction in self.cluster.decide(self.now_s):
            self.carry_out(instruction, answer=False)
            if hasattr(instruction, "holds") and self.rng.random() < 0.5:
                self.cluster.bind_failed(instruction.uid, "refused", self.now_s)

    def _measured(self) -> None:
        for i in range(NODES):
            use = Use(int(self.rng.integers(0, 8000)), int(self.rng.integers(0, 8000)) << 20)
            self.cluster.plugins.load_aware.metric_seen(NodeMetric(f"n{i}", 1.0, use=use, pods={}), self.now_s)

    def _some(self, uids: list[str]) -> str:
        return uids[int(self.rng.integers(len(uids)))] if uids else ""


_OF_CACHES = frozenset(
    {
        # renewed by what changed
        *(
            "verdict_cache",
            "_verdicts",
            "_by_need",
            "_by_state",
            "_brief",
            "_asked",
            "_rejector",
            "_division",
            "columns",
            "table",
        ),
        *("terms", "_covered", "_columns", "_kinds", "_standing", "_fresh", "_log", "_kept", "_due", "_new"),
        # how often something changed, and orders that are relative
        *("_changes", "revision", "_revision", "generation", "_version", "_calls", "shapes_written", "_adopted_shapes"),
        *("_released", "_stamps", "stamp", "_active", "_backing_off", "changes", "versions", "_clock"),
        # by numbers, bits or identities that others may have now; `validate` compares them with what they follow from
        *("row_shapes", "shapes", "_of_shapes", "_shape_rows", "_rows_by_key", "_shape_users", "_unused_shapes"),
        *(
            "_shape_preferred",
            "_free_shapes",
            "_unsummed",
            "_domains",
            "priorities",
            "sub_priorities",
            "started_s",
            "_asks",
            "ask",
        ),
        *("shape", "Ledger.row", "DeviceNode.state", "ledgers", "_states", "_forms"),
        *("free", "by_number", "_kind_indexes", "_taints", "_moved", "_added", "_sums", "_outside_used", "pod_counts"),
    }
)
_ORDERED = frozenset(
    {
        "by_uid",
        "residents",
        "reserved",
        "_groups",
        "pods",
        "_waiting",
        "_gangs",
        "members",
        "accounts",
        "_held",
        "_expected",
    }
)
_OPAQUE = (FunctionType, BuiltinFunctionType, MethodType, type, np.random.Generator)


def differences(mine: object, other: object, path: str = "", seen: set[tuple[int, int]] | None = None) -> Iterator[str]:
    """The paths of attributes and elements in which two engines differ, in depth; caches aside. Order counts in
    lists, and where it decides.
    """
    seen = set() if seen is None else seen
    if mine is other or isinstance(mine, _OPAQUE) or (id(mine), id(other)) in seen:
        return
    seen.add((id(mine), id(other)))
    if type(mine) is not type(other):
        yield f"{path}: {mine!r:.80} and {other!r:.80}"
    elif isinstance(mine, PodKind):
        assert isinstance(other, PodKind)
        if (mine.key, mine.pods, mine.residents, mine.terminating) != (
            other.key,
            other.pods,
            other.residents,
            other.terminating,
        ):
            yield f"{path}: {mine.pods} pods and {other.pods} of {mine.key} and {other.key}"
    elif isinstance(mine, np.ndarray):
        assert isinstance(other, np.ndarray)
        if mine.shape != other.shape or not np.array_equal(mine, other, equal_nan=mine.dtype.kind == "f"):
            yield f"{path}: {mine!r:.200} and {other!r:.200}"
    elif isinstance(mine, dict):
        assert isinstance(other, dict)
        ordered = path.rpartition(".")[2].partition("[")[0] in _ORDERED
        if not all(isinstance(key, (str, int)) for key in mine) or (ordered and [*mine] != [*other]):
            yield from differences([*mine], [*other], f"{path}.keys", seen)
            yield from differences([*mine.values()], [*other.values()], f"{path}.values", seen)
            return
        if mine.keys() != other.keys():
            yield f"{path}: {[*mine]!r:.100} and {[*other]!r:.100}"
        for key in mine.keys() & other.keys():
            yield from differences(mine[key], other[key], f"{path}[{key!r}]", seen)
    elif isinstance(mine, (list, tuple)) or hasattr(mine, "popleft"):
        for i, (value, its) in enumerate(zip_longest(mine, other)):  # type: ignore[call-overload]
            yield from differences(value, its, f"{path}[{i}]", seen)
    elif isinstance(mine, (set, frozenset)):
        assert isinstance(other, (set, frozenset))
        if {_short(entry) for entry in mine} != {_short(entry) for entry in other}:
            yield f"{path}: {mine!r:.200} and {other!r:.200}"
    elif names := _attributes(mine):
        for name in names:
            if name not in _OF_CACHES and f"{type(mine).__name__}.{name}" not in _OF_CACHES:
                yield from differences(getattr(mine, name), getattr(other, name), f"{path}.{name}", seen)
    elif mine != other and not (mine != mine and other != other):
        yield f"{path}: {mine!r:.80} and {other!r:.80}"


def _attributes(of: object) -> list[str]:
    slots = [name for kind in type(of).__mro__ for name in getattr(kind, "__slots__", ())]
    return [name for name in (*slots, *getattr(of, "__dict__", ())) if hasattr(of, name)]


def _short(key: object) -> str:
    return f"{key!r}" if isinstance(key, (str, int, tuple, float)) else type(key).__name__
