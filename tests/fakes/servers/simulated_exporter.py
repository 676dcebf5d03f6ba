"""The metrics of a small cluster over hours, as cAdvisor and kube-state-metrics would export them, with the faults that
real ones have, and what was really used, to compare with.

Text is OpenMetrics with timestamps, so that a Prometheus is filled with days of history at once. Each pod has one use
pattern; a counter is its integral, so that a rate over any window has an exact expectation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from math import pi, sin

MIB = 2**20


@dataclass(frozen=True)
class Container:
    """One container; times are seconds from the start."""

    pod: str
    cores: Callable[[float], float]
    memory_mib: float = 100.0
    name: str = "main"
    from_s: float = 0.0
    until_s: float = float("inf")
    resets_s: tuple[float, ...] = ()  # its counter begins at 0 again
    gaps_s: tuple[tuple[float, float], ...] = ()  # not scraped


@dataclass(frozen=True)
class Pod:
    """What kube-state-metrics says."""

    name: str
    namespace: str = "shop"
    node: str = "node-a"
    owner_kind: str = "ReplicaSet"
    owner_name: str = "web-7d4b9c6f5d"
    cpu_request: float = 0.5
    memory_request: int = 256 * MIB


@dataclass(frozen=True)
class Card:
    """What DCGM's exporter says of a GPU. `pods`: who has it, from when; its label is `exported_pod`."""

    uuid: str
    host: str
    busy: Callable[[float], float]  # percent
    memory_used_mib: int = 1000
    memory_free_mib: int = 15000
    pods: tuple[tuple[float, str], ...] = ()


@dataclass(frozen=True)
class SimulatedCluster:
    """`namespace_label` and the others rename cAdvisor's labels; `doubles` scrapes everything by a second server."""

    start_s: float
    hours: float
    scrape_s: float
    containers: tuple[Container, ...]
    pods: tuple[Pod, ...]
    namespace_label: str = "namespace"
    pod_label: str = "pod"
    container_label: str = "container"
    doubles: bool = False
    has_states: bool = True
    nodes: dict[str, str] = field(default_factory=lambda: {"node-a": "10.0.0.1"})
    cards: tuple[Card, ...] = ()
    kepler: str = ""  # version whose names are used, 0.7 or 0.10; "" = none
    watts_a_core: float = 10.0

    def text(self) -> str:
        """OpenMetrics."""
        lines = ["# TYPE container_cpu_usage_seconds counter"]
        for labels, container, scraper in self._series():
            lines += self._counter(f"container_cpu_usage_seconds_total{{{labels},{scraper}}}", container)
        lines.append("# TYPE container_memory_working_set_bytes gauge")
        for labels, container, scraper in self._series():
            for t in self._times(container):
                value = int(container.memory_mib * MIB)
                lines.append(f"container_memory_working_set_bytes{{{labels},{scraper}}} {value} {self.start_s + t:.3f}")
        for metric, root in (("cpu_usage_seconds_total", True), ("memory_working_set_bytes", False)):
            for address in self.nodes.values():
                whole = Container("", lambda t: 3.0, 4096.0)
                labels = f'id="/",instance="{address}:10250"'
                if root:
                    lines += self._counter(f"container_{metric}{{{labels}}}", whole)
                else:
                    lines += [
                        f"container_{metric}{{{labels}}} {4096 * MIB} {self.start_s + t:.3f}"
                        for t in self._times(whole)
                    ]
        if self.has_states:
            lines += self._states()
        lines += [line for card in self.cards for line in self._card(card)]
        if self.kepler:
            lines += self._joules()
        return _grouped(lines) + "# EOF\n"

    def _series(self) -> Iterator[tuple[str, Container, str]]:
        namespace = {pod.name: pod.namespace for pod in self.pods}
        for container in self.containers:
            labels = (
                f'{self.namespace_label}="{namespace[container.pod]}",{self.pod_label}="{container.pod}",'
                f'{self.container_label}="{container.name}",id="/kubepods/{container.pod}/{container.name}"'
            )
            yield labels, container, 'job="kubelet"'
            if self.doubles:
                yield labels, container, 'job="cadvisor"'
        yield f'{self.container_label}="",id="/kubepods"', Container("", lambda t: 50.0), 'job="kubelet"'

    def _times(self, container: Container) -> Iterator[float]:
        t = 0.0
        while t <= self.hours * 3600:
            hidden = any(begin <= t < end for begin, end in container.gaps_s)
            if container.from_s <= t <= container.until_s and not hidden:
                yield t
            t += self.scrape_s

    def _counter(self, series: str, container: Container) -> Iterator[str]:
        """The integral of the use in steps of five seconds."""
        total, at, resets = 0.0, container.from_s, list(container.resets_s)
        for t in self._times(container):
            while at + 5.0 <= t:
                if resets and at >= resets[0]:
                    total = 0.0
                    resets.pop(0)
                total += 5.0 * container.cores(at)
                at += 5.0
            yield f"{series} {total:.6f} {self.start_s + t:.3f}"

    def _card(self, card: Card) -> Iterator[str]:
        always = Container("", lambda t: 0.0)
        for t in self._times(always):
            at = f"{self.start_s + t:.3f}"
            holder = next((pod for from_s, pod in reversed(card.pods) if t >= from_s), "")
            pod = f',exported_namespace="shop",exported_pod="{holder}"' if holder else ""
            labels = f'UUID="{card.uuid}",gpu="0",Hostname="{card.host}",pod="dcgm-exporter-1",namespace="gpu"{pod}'
            yield f"DCGM_FI_DEV_GPU_UTIL{{{labels}}} {card.busy(t):.1f} {at}"
            yield f"DCGM_FI_DEV_FB_USED{{{labels}}} {card.memory_used_mib} {at}"
            yield f"DCGM_FI_DEV_FB_FREE{{{labels}}} {card.memory_free_mib} {at}"

    def _joules(self) -> Iterator[str]:
        """Of each watt half is `package` and half `dram`, where zones are told apart; `core` is a part of `package`,
        and not to be added. A node takes as much as one busy core.
        """
        namespace = {pod.name: pod.namespace for pod in self.pods}
        parts = {"package": 0.5, "dram": 0.5, "core": 0.4} if self.kepler == "0.10" else {"dynamic": 0.9, "idle": 0.1}
        for container in self.containers:
            for part, share in parts.items():
                energy = replace(container, cores=_scaled(container.cores, share * self.watts_a_core))
                where, pod = namespace[container.pod], container.pod
                if self.kepler == "0.10":
                    labels = f'pod_namespace="{where}",pod_name="{pod}",pod_id="{container.name}",zone="{part}"'
                    yield from self._counter(f"kepler_pod_cpu_joules_total{{{labels}}}", energy)
                else:
                    labels = f'container_namespace="{where}",pod_name="{pod}",container_id="{container.name}"'
                    yield from self._counter(f'kepler_container_joules_total{{{labels},mode="{part}"}}', energy)
        for node in self.nodes:
            for part, share in parts.items():
                whole = Container("", lambda t, share=share: share * self.watts_a_core)
                if self.kepler == "0.10":
                    labels = f'node_name="{node}",zone="{part}"'
                    yield from self._counter(f"kepler_node_cpu_joules_total{{{labels}}}", whole)
                else:
                    labels = f'instance="{node}",mode="{part}"'
                    yield from self._counter(f"kepler_node_package_joules_total{{{labels}}}", whole)

    def _states(self) -> Iterator[str]:
        lives = {pod.name: Container(pod.name, lambda t: 0.0) for pod in self.pods}
        lives |= {container.pod: container for container in self.containers}
        for pod in self.pods:
            for t in self._times(
                Container("", lambda t: 0.0, from_s=lives[pod.name].from_s, until_s=lives[pod.name].until_s)
            ):
                at = f"{self.start_s + t:.3f}"
                who = f'namespace="{pod.namespace}",pod="{pod.name}"'
                by = f'created_by_kind="{pod.owner_kind}",created_by_name="{pod.owner_name}"'
                yield f'kube_pod_info{{{who},node="{pod.node}",{by}}} 1 {at}'
                for resource, amount in (("cpu", pod.cpu_request), ("memory", pod.memory_request)):
                    labels = f'{who},container="main",resource="{resource}"'
                    yield f"kube_pod_container_resource_requests{{{labels}}} {amount} {at}"
        for t in self._times(Container("", lambda t: 0.0)):
            at = f"{self.start_s + t:.3f}"
            for node, address in self.nodes.items():
                yield f'kube_node_info{{node="{node}",internal_ip="{address}"}} 1 {at}'
            owner = 'owner_kind="Deployment",owner_name="web"'
            yield f'kube_replicaset_owner{{namespace="shop",replicaset="web-7d4b9c6f5d",{owner}}} 1 {at}'


def daily(mean: float, swing: float, hours: float = 24.0) -> Callable[[float], float]:
    """A use pattern with one peak in so many hours."""
    return lambda t: max(0.0, mean + swing * sin(2 * pi * t / (hours * 3600)))


def _scaled(use: Callable[[float], float], factor: float) -> Callable[[float], float]:
    return lambda t: factor * use(t)


def steady(cores: float) -> Callable[[float], float]:
    """The same always."""
    return lambda t: cores


def _grouped(lines: list[str]) -> str:
    """All samples of a metric together, as the format wants."""
    by_metric: dict[str, list[str]] = {}
    types: dict[str, str] = {}
    for line in lines:
        if line.startswith("# TYPE"):
            types[line.split()[2]] = line
        else:
            by_metric.setdefault(line.partition("{")[0], []).append(line)
    text = ""
    for metric, samples in by_metric.items():
        family = metric.removesuffix("_total")
        text += types.get(family, f"# TYPE {family} {'counter' if metric.endswith('_total') else 'gauge'}") + "\n"
        text += "\n".join(samples) + "\n"
    return text
