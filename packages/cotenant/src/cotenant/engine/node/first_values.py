"""The first values of a container, decided from its pod before its first instruction runs.

A kubelet knows native amounts and classes only, so a container runs with its values until the agent has seen it, up to
a period later; and nothing that is decided about devices or names reaches its environment. The figures are those of the
policy that holds them afterwards (`batch_resources.desired`), so a lease takes over without a step; a best-effort
container without batch CPU starts with the least weight. Never more than the groups above allow, since the runtime
would fail: on cgroup v1 a quota above a group's is an error, as are CPUs that it lacks. What would make the start
itself slow or fail is left to the lease. An update of the runtime's (a resize in place) gets the batch amounts again,
which a kubelet does not know, and nothing else.

Limits: labels and annotations are the pod owner's words. They can lower a pod, and give a container a share of its own
pod; CPUs, devices and their refusal go by annotations that a scheduler writes and an owner can forge, so they are
followed only in the namespaces that `believed` names, where something else (an admission rule, who may write there)
makes sure of them. A pod's own group is the kubelet's: only leases act on it.

Source: Koordinator, pkg/koordlet/runtimehooks (groupidentity, batchresource, cpuset, gpu); OpenTelemetry, environment
variables and resource conventions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import quote

from cotenant.engine.node.gpu_limits import limited
from cotenant.model.cluster.labels import Labels
from cotenant.model.cluster.seal import SealStanding
from cotenant.model.cpus.cpulist import format_cpus
from cotenant.model.devices.allocation import DEVICE_ALLOCATED, parse_allocations
from cotenant.model.devices.device import DeviceType
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.counters import GpuCounters
from cotenant.model.machine.first_values import FirstValueRefusal, FirstValues, LeftOut
from cotenant.model.machine.knob import Knob
from cotenant.model.machine.knob_values import CpuMax, parse_cpu_max
from cotenant.model.machine.node_decision import DecisionTerm, Reason
from cotenant.model.machine.node_pod import NOT_EXTENDED, NodePod
from cotenant.policy.nodeqos.batch_resources import MIN_WEIGHT, BatchResourcesConfig, desired

RULE = "first-values"
EVERY_NAMESPACE = "*"
# The runtime's own start runs in the container's group: some 50 ms of CPU and 8 MiB, in which a smaller limit would
# hold it for seconds, or end it.
MIN_START_MILLI, MIN_START_BYTES = 100, 16 << 20
GUID = "COTENANT_GUID"
VISIBLE_GPUS = "NVIDIA_VISIBLE_DEVICES"
SERVICE_NAME, ATTRIBUTES, ENDPOINT = "OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES", "OTEL_EXPORTER_OTLP_ENDPOINT"
NAME_LABELS = ("app.kubernetes.io/name", "app", "k8s-app")
HASH_LABELS = ("pod-template-hash", "controller-revision-hash")


@dataclass(frozen=True, slots=True)
class FirstValueSettings:
    """What is decided. The defaults decide CPU and memory of best-effort work alone."""

    best_effort: bool = True  # the least weight for best-effort containers without batch CPU
    batch: BatchResourcesConfig | None = field(default_factory=BatchResourcesConfig)  # of the leases; None: none
    cache_class: str = ""  # of best-effort containers, as the runtime and resctrl name it; "": none
    believed: frozenset[str] = frozenset()  # namespaces whose pods' CPUs and devices are those of their annotations
    cpus: bool = False
    devices: bool = False
    cdi_kind: str = ""  # as nvidia.com/gpu; "": by the environment alone
    mps_pipe: str = ""  # with devices: the MPS daemon that holds shares of GPUs; "": none does
    lent_beside_percent: int = 0  # of multiprocessors, of who borrows beside a model server; 0: that is not lent
    mps_shared_memory: str = ""  # the host's folder that its clients have as /dev/shm; "": their own
    names: bool = False  # the guid, and OpenTelemetry's names
    otlp_endpoint: str = ""


@dataclass(frozen=True, slots=True)
class FirstValueFacts:
    """What is known of the node. `gpus` None: not known. `cpu_manager` "": not known."""

    node: str = ""
    cpu_ratio_milli: int = 1000
    gpus: tuple[GpuCounters, ...] | None = None
    cpu_manager: str = ""  # the kubelet's policy
    cache_classes: frozenset[str] = frozenset()  # that exist
    mps_answers: bool = False  # the daemon at `mps_pipe`


@dataclass(frozen=True, slots=True)
class StartingContainer:
    """A container that is being created, or updated."""

    name: str
    id: str = ""
    image: str = ""
    variables: frozenset[str] = frozenset()  # names that its image or its pod set
    ceiling_m: int | None = (
        None  # CPU quota that the groups above allow, where a higher one would be refused; 0: not known; None: any
    )
    allowed_cpus: tuple[int, ...] | None = None  # of the groups above; None: not known


def first_values(
    pod: NodePod, container: StartingContainer, node: FirstValueFacts, settings: FirstValueSettings
) -> FirstValues:
    """What a new container starts with."""
    made = _limits(pod, container, node, settings, starting=True)
    made = _cpus(made, pod, container, node, settings)
    made = _cache_class(made, pod, node, settings)
    made = _gpus(made, pod, container, node, settings)
    return _names(made, pod, container, node, settings) if settings.names else made


def updated_values(
    pod: NodePod, container: StartingContainer, node: FirstValueFacts, settings: FirstValueSettings
) -> FirstValues:
    """What an update of a running container is changed to: its batch amounts. Native ones are the kubelet's to say."""
    return _limits(pod, container, node, replace(settings, best_effort=False), starting=False)


def _limits(
    pod: NodePod, container: StartingContainer, node: FirstValueFacts, settings: FirstValueSettings, *, starting: bool
) -> FirstValues:
    made = FirstValues()
    if settings.batch is not None and pod.extended != NOT_EXTENDED:
        # The policy names a container's knobs by its group, which the runtime has yet to make.
        at = f"{pod.group or 'pod'}/{container.name}"
        named = tuple(
            replace(node_container, group=at if node_container.name == container.name else "")
            for node_container in pod.containers
        )
        ratio = max(1000, node.cpu_ratio_milli)
        for knob in desired(replace(pod, group=pod.group or "pod", containers=named), settings.batch, ratio):
            if knob.target.group == at:
                made = _with_knob(made, knob.target.knob, knob.value, knob.reason, container, starting=starting)
    if made.weight is None and settings.best_effort and pod.best_effort and not _has_batch_cpu(pod, container.name):
        reason = Reason(
            RULE, f"{pod.key} is best effort: the least weight", (DecisionTerm(Knob.CPU_WEIGHT, MIN_WEIGHT),)
        )
        made = replace(made, weight=MIN_WEIGHT, reasons=(*made.reasons, reason))
    return made


def _has_batch_cpu(pod: NodePod, container: str) -> bool:
    return any(node_container.extended_cpu for node_container in pod.containers if node_container.name == container)


def _with_knob(
    made: FirstValues, knob: Knob, value: str, reason: Reason, container: StartingContainer, *, starting: bool
) -> FirstValues:
    match knob:
        case Knob.CPU_WEIGHT:
            return replace(made, weight=int(value), reasons=(*made.reasons, reason))
        case Knob.CPU_MAX:
            quota = parse_cpu_max(value)
            if starting and (quota.cpu_m or 0) < MIN_START_MILLI:
                return _without(
                    made, FirstValueRefusal.TOO_SMALL, f"{reason.text}, in which a start would take seconds"
                )
            if container.ceiling_m == 0:
                return _without(
                    made, FirstValueRefusal.OUTSIDE, f"{reason.text}; what the groups above it allow is not known"
                )
            return replace(made, quota=_below(quota, container.ceiling_m), reasons=(*made.reasons, reason))
        case Knob.MEMORY_MAX:
            if starting and int(value) < MIN_START_BYTES:
                return _without(
                    made, FirstValueRefusal.TOO_SMALL, f"{reason.text}, in which the runtime's own start may not fit"
                )
            return replace(made, memory_bytes=int(value), reasons=(*made.reasons, reason))
        case _:
            return made


def _below(quota: CpuMax, ceiling_m: int | None) -> CpuMax:
    """The quota, or the highest one that the groups above allow."""
    if ceiling_m is None or quota.quota_us is None:
        return quota
    return CpuMax(min(quota.quota_us, ceiling_m * quota.period_us // 1000), quota.period_us)


def _cpus(
    made: FirstValues, pod: NodePod, container: StartingContainer, node: FirstValueFacts, settings: FirstValueSettings
) -> FirstValues:
    if not settings.cpus or not pod.own_cpus:
        return made
    text = f"{pod.key} owns the CPUs {format_cpus(pod.own_cpus)}"
    if doubt := _doubt(pod, settings):
        return _without(made, FirstValueRefusal.UNTRUSTED, f"{text} by an annotation, {doubt}")
    if node.cpu_manager != "none":
        owner = f"is {node.cpu_manager}" if node.cpu_manager else "is not known"
        return _without(
            made, FirstValueRefusal.OTHER_OWNER, f"{text}, but the policy of the kubelet's CPU manager {owner}"
        )
    if container.allowed_cpus is None or not set(pod.own_cpus) <= set(container.allowed_cpus):
        allowed = "is not known" if container.allowed_cpus is None else f"is {format_cpus(container.allowed_cpus)}"
        return _without(made, FirstValueRefusal.OUTSIDE, f"{text}, but what its group may use {allowed}")
    return replace(made, cpus=pod.own_cpus, reasons=(*made.reasons, Reason(RULE, text)))


def _cache_class(made: FirstValues, pod: NodePod, node: FirstValueFacts, settings: FirstValueSettings) -> FirstValues:
    name = settings.cache_class
    if not name or not pod.best_effort:
        return made
    if name not in node.cache_classes:
        return _without(
            made, FirstValueRefusal.NO_CLASS, f"{pod.key} belongs to the cache's class {name}, which does not exist"
        )
    reason = Reason(RULE, f"{pod.key} belongs to the cache's class {name}")
    return replace(made, cache_class=name, reasons=(*made.reasons, reason))


def _gpus(
    made: FirstValues, pod: NodePod, container: StartingContainer, node: FirstValueFacts, settings: FirstValueSettings
) -> FirstValues:
    written = pod.annotations.get(DEVICE_ALLOCATED)
    if not settings.devices or written is None:
        return made
    if doubt := _doubt(pod, settings):
        return _without(made, FirstValueRefusal.UNTRUSTED, f"{pod.key} has devices by an annotation, {doubt}")
    try:
        minors = sorted(
            {allocation.minor for allocation in parse_allocations(written) if allocation.type is DeviceType.GPU}
        )
    except InvalidInput as error:
        return _without(made, FirstValueRefusal.MALFORMED, f"{pod.key}: {error}")
    if not minors:
        return made
    known = {gpu.index: gpu for gpu in node.gpus or ()}
    for minor in minors:
        what = f"{pod.key} was given GPU {minor}"
        if node.gpus is None:
            return _without(
                made, FirstValueRefusal.UNKNOWN_DEVICE, f"{what}, and which GPUs this node has is not known"
            )
        if minor not in known:
            return _without(made, FirstValueRefusal.UNKNOWN_DEVICE, f"{what}, which this node does not have")
        if not known[minor].healthy:
            return _without(made, FirstValueRefusal.ILL_DEVICE, f"{what}, which is not in good health")
    visible = ",".join(known[minor].uuid or str(minor) for minor in minors)
    reason = Reason(RULE, f"{pod.key} was given GPU {', '.join(map(str, minors))}")
    made = replace(
        made,
        environment=(*made.environment, (VISIBLE_GPUS, visible)),
        devices=tuple(f"{settings.cdi_kind}={minor}" for minor in minors) if settings.cdi_kind else (),
        reasons=(*made.reasons, reason),
    )
    if not settings.mps_pipe:
        return made
    return limited(
        made,
        pod,
        node.gpus or (),
        container.variables,
        pipe=settings.mps_pipe,
        shared_memory=settings.mps_shared_memory,
        answers=node.mps_answers,
        beside=settings.lent_beside_percent,
    )


def _names(
    made: FirstValues, pod: NodePod, container: StartingContainer, node: FirstValueFacts, settings: FirstValueSettings
) -> FirstValues:
    """The names by which measurements and spans of the container meet. What the pod sets itself stays."""
    workload = workload_of(pod.labels, pod.name)
    guid = f"{_image_name(container.image) or workload}-{container.id[:8]}" if container.id else ""
    attributes = (
        ("service.instance.id", guid),
        ("k8s.namespace.name", pod.namespace),
        ("k8s.pod.name", pod.name),
        ("k8s.pod.uid", pod.uid),
        ("k8s.container.name", container.name),
        ("k8s.node.name", node.node),
    )
    wanted = (
        (GUID, guid),
        (SERVICE_NAME, workload),
        (ATTRIBUTES, ",".join(f"{name}={quote(value, safe='')}" for name, value in attributes if value)),
        (ENDPOINT, settings.otlp_endpoint),
    )
    new = tuple((name, value) for name, value in wanted if value and name not in container.variables)
    return replace(made, environment=(*made.environment, *new))


def workload_of(labels: Labels, pod: str) -> str:
    """The name of a pod's workload: a label that says so, else the pod's name without what its controller appended."""
    for label in NAME_LABELS:
        if name := labels.get(label):
            return name
    if job := labels.get("batch.kubernetes.io/job-name"):
        return job
    for label in HASH_LABELS:
        revision = labels.get(label) or ""
        before, found, _ = pod.rpartition(f"-{revision}-") if revision else ("", "", "")
        if found:
            return before
    before, _, number = pod.rpartition("-")
    return before if before and number.isdecimal() and labels.get("statefulset.kubernetes.io/pod-name") else pod


def _image_name(image: str) -> str:
    """`registry/team/cart:1.2@sha256:...` -> `cart`; "" for an image by its digest alone."""
    last = image.partition("@")[0].rpartition("/")[2]
    return "" if last == "sha256" or image.startswith("sha256:") else last.partition(":")[0]


def _doubt(pod: NodePod, settings: FirstValueSettings) -> str:
    """Why what the pod's annotations say that it holds is not believed; "" where it is."""
    if pod.holdings is SealStanding.SEALED:
        return ""
    if pod.holdings is SealStanding.REFUSED:
        return "without a seal of the scheduler that is right"
    known = EVERY_NAMESPACE in settings.believed or pod.namespace in settings.believed
    return "" if known else "in a namespace that is not believed"


def _without(made: FirstValues, cause: FirstValueRefusal, text: str) -> FirstValues:
    return replace(made, left_out=(*made.left_out, LeftOut(cause, Reason(RULE, text))))


def sentences(values: FirstValues) -> Sequence[str]:
    """What was decided and what was left out, for a log."""
    return (
        *(reason.text for reason in values.reasons),
        *(f"left out: {left_out.reason.text}" for left_out in values.left_out),
    )
