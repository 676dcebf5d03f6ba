"""A small cluster for right-sizing: kubelets that take resizes or do not, reports, and a store that is read back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from cotenant.engine.sizing.right_sizer import RightSizer
from cotenant.engine.sizing.scene import ResizePod, WriteSizing
from cotenant.model.autonomy.autonomy import Autonomy, Freeze
from cotenant.model.machine.node_metric import MeasuredPod, NodeMetric, PodSignals, Use
from cotenant.model.sizes.container import ContainerSize, SizedContainer, SizedPod
from cotenant.model.sizes.right_sizing import RightSizing, SizingPhase, SizingStatus

MIB = 1 << 20
NOW_S = 1_800_000_000.0
BIG = ContainerSize(3000, None, 2048 * MIB, 4096 * MIB)
KEY = "ns/web"
TICK_S = 5


class World:
    """Three replicas of a Deployment that each use 1000m and 900 MiB."""

    def __init__(self, replicas: int = 3, **spec: object) -> None:
        self.now_s = NOW_S
        self.engine = RightSizer(lambda at_s: f"t{at_s - NOW_S:.0f}")
        self.kubelet: Callable[[SizedPod, ContainerSize], SizedPod] = in_place
        self.use = Use(1000, 900 * MIB)
        self.signals: dict[str, PodSignals] = {}
        self.is_reporting = True
        self.refuses = ""
        self.frozen: str | None = None
        self.pods: dict[str, SizedPod] = {}
        self.resized: list[tuple[str, ContainerSize]] = []
        self.given_back: set[str] = set()  # pods made anew whose kubelet did not take the proven size
        self.sizing = RightSizing(
            KEY,
            "s",
            1,
            "Deployment",
            "web",
            min_history_s=60.0,
            proof_s=120.0,
            patience_s=300.0,
            **spec,  # type: ignore[arg-type]
        )
        self.engine.owner_seen("ns", "web-1", ("Deployment", "web"))
        for name in "abcdefgh"[:replicas]:
            self.put(pod(name))
        self.engine.sizing_seen(self.sizing)

    def put(self, of: SizedPod) -> None:
        self.pods[of.name] = of
        self.engine.pod_seen(of)

    def spec(self, **changed: object) -> None:
        self.sizing = replace(self.sizing, generation=self.sizing.generation + 1, **changed)  # type: ignore[arg-type]
        self.engine.sizing_seen(self.sizing)

    def restart(self) -> None:
        """Another replica of the manager leads: it knows what is stored and what is watched."""
        self.engine = RightSizer(lambda at_s: f"t{at_s - NOW_S:.0f}")
        self.engine.owner_seen("ns", "web-1", ("Deployment", "web"))
        for of in self.pods.values():
            self.engine.pod_seen(of)
        self.engine.sizing_seen(self.sizing)
        if self.frozen is not None:
            self.freeze(self.frozen)
        self.engine.leads_now()

    def freeze(self, why: str | None) -> None:
        """None = thaw."""
        self.frozen = why
        if why is None:
            self.engine.permissions.gone("freeze")
        else:
            self.engine.permissions.seen(Autonomy("freeze", freeze=Freeze(why, "ada")))

    def run(self, seconds: int, until: Callable[[], bool] = lambda: False) -> bool:
        for _ in range(-(-seconds // TICK_S)):
            self.now_s += TICK_S
            if self.is_reporting and self.now_s % 30 == 0:
                measured = {
                    f"ns/{name}": MeasuredPod(self.use, signals=self.signals.get(name, PodSignals()))
                    for name in self.pods
                }
                self.engine.metric_seen(NodeMetric("n1", 0.0, pods=measured, updated_s=self.now_s), self.now_s)
            for write in self.engine.decide(self.now_s):
                if isinstance(write, WriteSizing):
                    self.sizing = replace(self.sizing, status=write.status)
                    self.engine.sizing_seen(self.sizing)
                else:
                    self.resize(write)
            if until():
                return True
        return False

    def resize(self, write: ResizePod) -> None:
        assert write.undoes or self.frozen is None, "a freeze stops every resize but those that undo"
        self.resized.append((write.pod, write.size))
        if write.undoes and self.status.change is None:
            self.given_back.add(write.pod)
        if self.refuses:
            self.engine.resize_refused(write, self.refuses)
            return
        of = self.pods[write.pod]
        self.put(self.kubelet(replace(of, containers=(replace(of.containers[0], size=write.size),)), write.size))

    @property
    def status(self) -> SizingStatus:
        return self.sizing.status

    def phase(self) -> SizingPhase | None:
        return self.status.change.phase if self.status.change else None

    def reach(self, phase: SizingPhase) -> None:
        assert self.run(3600, lambda: self.phase() is phase), self.status

    def sizes(self) -> set[ContainerSize]:
        return {of.containers[0].size for of in self.pods.values()}

    def approve(self) -> None:
        assert self.run(300, lambda: self.status.state == "awaitsApproval"), self.status
        assert self.status.suggestion is not None
        self.spec(approved=self.status.suggestion.id, approved_by="ada")


def pod(name: str, size: ContainerSize = BIG) -> SizedPod:
    container = SizedContainer("app", size, allocated=size)
    return SizedPod("ns", name, f"uid-{name}", "n1", "ReplicaSet", "web-1", True, True, (container,))


def in_place(of: SizedPod, size: ContainerSize) -> SizedPod:
    return replace(of, pending="", in_progress=False, containers=(replace(of.containers[0], allocated=size),))


def pending(reason: str) -> Callable[[SizedPod, ContainerSize], SizedPod]:
    def take(of: SizedPod, size: ContainerSize) -> SizedPod:
        allocated = of.containers[0].allocated
        if allocated == size:
            return in_place(of, size)
        return replace(of, pending=reason, pending_why="no room")

    return take
