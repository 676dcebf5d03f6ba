"""The names and labels by which clusters store the same figures, and the queries that follow.

Every series is asked for by `max` over what identifies a container before it is summed over a pod, so two servers that
scrape alike, and a container's cgroup that was replaced, count once. Rates are the store's own, which knows resets.
Order matters: the first layout that has series is taken, so a label that was set aside (`exported_pod`) comes before
the one that replaced it, which names the scraper.

Sources: the kubelet's cAdvisor and resource metrics, kube-state-metrics, node_exporter, the recording rules of
kube-prometheus, Google Cloud's metrics as PromQL names them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cotenant.model.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class PodLayout:
    """Where pods' use is. `container` is "" where series are of whole pods."""

    name: str
    cpu: str  # a counter of core-seconds, or a rate in cores
    memory: str  # bytes
    namespace: str = "namespace"
    pod: str = "pod"
    container: str = "container"
    fixed: str = ""  # matchers of its own
    fixed_memory: str = ""
    is_rate: bool = False


@dataclass(frozen=True, slots=True)
class NodeLayout:
    """Where nodes' use is; `free` is a second metric that `memory` is lessened by."""

    name: str
    cpu: str
    memory: str
    label: str
    fixed_cpu: str = ""
    fixed_memory: str = ""
    free: str = ""


@dataclass(frozen=True, slots=True)
class StateLayout:
    """Labels of kube-state-metrics."""

    namespace: str
    pod: str


_CPU, _MEMORY = "container_cpu_usage_seconds_total", "container_memory_working_set_bytes"
_RULE = "node_namespace_pod_container:container_cpu_usage_seconds_total:sum_"
_RULE_MEMORY = "node_namespace_pod_container:container_memory_working_set_bytes"
_EXPORTED = ("exported_namespace", "exported_pod", "exported_container")

POD_LAYOUTS: tuple[PodLayout, ...] = (
    PodLayout("cAdvisor, labels set aside", _CPU, _MEMORY, *_EXPORTED),
    PodLayout("cAdvisor", _CPU, _MEMORY),
    PodLayout("cAdvisor before 1.16", _CPU, _MEMORY, "namespace", "pod_name", "container_name"),
    PodLayout("cAdvisor, whole pods", _CPU, _MEMORY, container="", fixed='container=""'),
    PodLayout(
        "the kubelet's resource metrics", "pod_cpu_usage_seconds_total", "pod_memory_working_set_bytes", container=""
    ),
    PodLayout("recording rules of kube-prometheus", f"{_RULE}rate5m", _RULE_MEMORY, is_rate=True),
    PodLayout("recording rules of kube-prometheus", f"{_RULE}irate", _RULE_MEMORY, is_rate=True),
    PodLayout(
        "Google Cloud's system metrics",
        "kubernetes_io:container_cpu_core_usage_time",
        "kubernetes_io:container_memory_used_bytes",
        "namespace_name",
        "pod_name",
        "container_name",
        fixed_memory='memory_type="non-evictable"',
    ),
)

NODE_LAYOUTS: tuple[NodeLayout, ...] = (
    *(
        NodeLayout(f"cAdvisor's root group by {label}", _CPU, _MEMORY, label, 'id="/"', 'id="/"')
        for label in ("node", "kubernetes_io_hostname", "instance")
    ),
    *(
        NodeLayout(
            f"resource metrics by {label}", "node_cpu_usage_seconds_total", "node_memory_working_set_bytes", label
        )
        for label in ("node", "instance")
    ),
    *(
        NodeLayout(
            f"node_exporter by {label}",
            "node_cpu_seconds_total",
            "node_memory_MemTotal_bytes",
            label,
            'mode!~"idle|iowait|steal|guest|guest_nice"',
            free="node_memory_MemAvailable_bytes",
        )
        for label in ("nodename", "node", "instance")
    ),
)

STATE_LAYOUTS = (StateLayout("exported_namespace", "exported_pod"), StateLayout("namespace", "pod"))


def matchers(pairs: Mapping[str, str], *more: str) -> str:
    """A selector's text, such as `{cluster="a",id="/"}`. Raises `InvalidInput` for what is no label's name."""
    for name in pairs:
        if not (name.isascii() and name.replace("_", "a").isalnum() and not name[0].isdigit()):
            raise InvalidInput("label", name, "a Prometheus label's name")
    parts = [f'{name}="{_quoted(value)}"' for name, value in pairs.items()]
    return "{" + ",".join([*parts, *(one for one in more if one)]) + "}"


def pods_present(layout: PodLayout, only: Mapping[str, str]) -> str:
    """The number of this layout's series."""
    return f"count({layout.cpu}{_of_pods(layout, only, layout.fixed)})"


def scrapes_present(layout: PodLayout, only: Mapping[str, str]) -> str:
    """The most samples that any series has in ten minutes."""
    return f"max(count_over_time({layout.cpu}{_of_pods(layout, only, layout.fixed)}[10m]))"


def pod_cpu(layout: PodLayout, only: Mapping[str, str], window_s: int, *, by_container: bool = False) -> str:
    """Cores of each pod, or of each container where the series have them."""
    series = f"{layout.cpu}{_of_pods(layout, only, layout.fixed)}[{window_s}s]"
    return _summed(layout, f"avg_over_time({series})" if layout.is_rate else f"rate({series})", by_container)


def pod_memory(layout: PodLayout, only: Mapping[str, str], window_s: int, *, by_container: bool = False) -> str:
    """Bytes of each pod, or of each container where the series have them."""
    selector = _of_pods(layout, only, layout.fixed_memory or layout.fixed)
    return _summed(layout, f"avg_over_time({layout.memory}{selector}[{window_s}s])", by_container)


def nodes_present(layout: NodeLayout, only: Mapping[str, str]) -> str:
    """The number of nodes of this layout."""
    return f"count(count by ({layout.label}) ({layout.cpu}{_of_nodes(layout, only, layout.fixed_cpu)}))"


def node_cpu(layout: NodeLayout, only: Mapping[str, str], window_s: int) -> str:
    """Cores of each node."""
    rate = f"rate({layout.cpu}{_of_nodes(layout, only, layout.fixed_cpu)}[{window_s}s])"
    if layout.free:  # a series a CPU and mode
        return f"sum by ({layout.label}) (max by ({layout.label},cpu,mode) ({rate}))"
    return f"max by ({layout.label}) ({rate})"


def node_memory(layout: NodeLayout, only: Mapping[str, str], window_s: int) -> str:
    """Bytes of each node."""
    selector = _of_nodes(layout, only, layout.fixed_memory)
    held = f"max by ({layout.label}) (avg_over_time({layout.memory}{selector}[{window_s}s]))"
    if layout.free:
        return f"{held} - max by ({layout.label}) (avg_over_time({layout.free}{selector}[{window_s}s]))"
    return held


def state_present(layout: StateLayout, only: Mapping[str, str]) -> str:
    """The number of pods that kube-state-metrics knows by these labels."""
    named = matchers(only, f'{layout.pod}!=""')
    return f"count(kube_pod_info{named})"


def pod_places(layout: StateLayout, only: Mapping[str, str], window_s: int) -> str:
    """Node and creator of each pod that was there within the window."""
    by = f"{layout.namespace},{layout.pod},node,created_by_kind,created_by_name"
    return f"group by ({by}) (max_over_time(kube_pod_info{matchers(only)}[{window_s}s]))"


def pod_requests(layout: StateLayout, only: Mapping[str, str], window_s: int) -> tuple[str, str, str]:
    """Requests of each pod by resource (with the label `resource`), and CPU and memory as old versions name them."""
    by = f"{layout.namespace},{layout.pod}"
    metric = "kube_pod_container_resource_requests"

    def summed(name: str, more: str, label: str) -> str:
        series = f"max_over_time({name}{matchers(only, more)}[{window_s}s])"
        return f"sum by ({by}{label}) (max by ({by},container{label}) ({series}))"

    return (
        summed(metric, 'resource=~"cpu|memory"', ",resource"),
        summed(f"{metric}_cpu_cores", "", ""),
        summed(f"{metric}_memory_bytes", "", ""),
    )


def owners(metric: str, label: str, only: Mapping[str, str], window_s: int) -> str:
    """Owners of ReplicaSets (`kube_replicaset_owner`, `replicaset`) or Jobs (`kube_job_owner`, `job_name`)."""
    by = f"namespace,exported_namespace,{label},owner_kind,owner_name"
    return f"group by ({by}) (max_over_time({metric}{matchers(only)}[{window_s}s]))"


def node_addresses(only: Mapping[str, str]) -> str:
    """Nodes with their internal addresses."""
    return f"group by (node,internal_ip) (max_over_time(kube_node_info{matchers(only)}[1d]))"


def clusters_present(only: Mapping[str, str]) -> str:
    """The clusters of a store that holds several."""
    return f"group by (cluster) (max_over_time(kube_node_info{matchers(only)}[1h]))"


def _of_pods(layout: PodLayout, only: Mapping[str, str], fixed: str) -> str:
    named = (f'{layout.namespace}!=""', f'{layout.pod}!=""')
    containers = (f'{layout.container}!=""', f'{layout.container}!="POD"') if layout.container else ()
    return matchers(only, *named, *containers, fixed)


def _of_nodes(layout: NodeLayout, only: Mapping[str, str], fixed: str) -> str:
    return matchers(only, f'{layout.label}!=""', fixed)


def _summed(layout: PodLayout, values: str, by_container: bool) -> str:
    pod = f"{layout.namespace},{layout.pod}"
    one = f"{pod},{layout.container}" if layout.container else pod
    inner = f"max by ({one}) ({values})"
    return f"sum by ({pod}) ({inner})" if layout.container and not by_container else inner


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
