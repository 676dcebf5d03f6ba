"""Pods and pod templates: defaults and rules.

The kind that is written most often has the most rules. Plain functions, each a check that costs nothing if its field is
absent; a spec is validated the same in a pod and in a template, and where the API differs the caller passes the
difference.
Limits: security contexts are not validated; which fields of an existing pod may change is the pod's behaviour on
update, not its schema.
Sources: Kubernetes API reference v1 PodSpec; the defaults that a v1.36 server shows on created pods; "Sidecar
containers".
"""

from __future__ import annotations

from cotenant.drivers.kube.manifests.errors import FieldError, Manifest
from cotenant_local.apiserver.schema.kinds import field_errors
from cotenant_local.apiserver.schema.kinds.claims import of_pods
from cotenant_local.apiserver.schema.kinds.container import (
    check_container,
    check_name,
    check_resources,
    default_container,
    default_host_ports,
    default_requests,
)
from cotenant_local.apiserver.schema.kinds.eviction_requests import check_responders
from cotenant_local.apiserver.schema.kinds.placement import check_affinity, check_gates, check_spread, check_tolerations
from cotenant_local.apiserver.schema.kinds.volumes import check_volumes, default_volumes

ALWAYS = frozenset({"Always"})
_RESTART = frozenset({"Always", "OnFailure", "Never"})
_DNS = frozenset({"ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"})
_PREEMPTION = frozenset({"Never", "PreemptLowerPriority"})
_MAX_INT32 = 2**31 - 1
_NO_VOLUMES: frozenset[str] = frozenset()


def default_pod(obj: Manifest) -> None:
    """Set the defaults of a pod."""
    spec = obj.setdefault("spec", {})
    default_spec(spec)
    if "enableServiceLinks" not in spec:
        spec["enableServiceLinks"] = True
    is_on_host = spec.get("hostNetwork", False)
    for kind in ("containers", "initContainers"):
        for container in spec.get(kind, ()):
            if "limits" in container["resources"]:
                default_requests(container)
            if is_on_host:
                default_host_ports(container)


def default_template(template: Manifest) -> None:
    """Set the defaults of a pod template."""
    default_spec(template.setdefault("spec", {}))


def default_spec(spec: Manifest) -> None:
    """Set the defaults that pods and templates share."""
    if "restartPolicy" not in spec:
        spec["restartPolicy"] = "Always"
    if "dnsPolicy" not in spec:
        spec["dnsPolicy"] = "ClusterFirst"
    if "terminationGracePeriodSeconds" not in spec:
        spec["terminationGracePeriodSeconds"] = 30
    if "schedulerName" not in spec:
        spec["schedulerName"] = "default-scheduler"
    if "securityContext" not in spec:
        spec["securityContext"] = {}
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:  # one field under two names
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for container in spec.get("containers", ()):
        default_container(container)
    if "initContainers" in spec:
        for container in spec["initContainers"]:
            default_container(container)
    if "ephemeralContainers" in spec:
        for container in spec["ephemeralContainers"]:
            default_container(container)
    if "volumes" in spec:
        default_volumes(spec["volumes"])


def check_pod(obj: Manifest, old: Manifest | None) -> list[FieldError]:
    """Validation errors of a pod."""
    causes: list[FieldError] = []
    check_spec(obj.get("spec", {}), "spec", causes)
    return causes


def check_spec(
    spec: Manifest,
    field: str,
    causes: list[FieldError],
    restart: frozenset[str] = _RESTART,
    claims: frozenset[str] = _NO_VOLUMES,
) -> None:
    """Check a pod's spec. `restart`: the restart policies that its owner allows; `claims`: volumes that its owner
    adds.
    """
    volumes = spec.get("volumes")
    mountable = (check_volumes(volumes, f"{field}.volumes", causes) if volumes else _NO_VOLUMES) | claims
    _check_containers(spec, field, mountable, causes)
    _check_claims(spec, field, causes)
    if spec.get("restartPolicy") not in restart:
        field_errors.one_of(spec.get("restartPolicy"), restart, f"{field}.restartPolicy", causes)
    if spec.get("dnsPolicy") not in _DNS:
        field_errors.one_of(spec.get("dnsPolicy"), _DNS, f"{field}.dnsPolicy", causes)
    if spec.get("terminationGracePeriodSeconds", 0) < 0:
        causes.append(
            field_errors.invalid(
                f"{field}.terminationGracePeriodSeconds",
                spec["terminationGracePeriodSeconds"],
                field_errors.NOT_NEGATIVE,
            )
        )
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= _MAX_INT32:
        causes.append(
            field_errors.invalid(
                f"{field}.activeDeadlineSeconds", deadline, f"must be between 1 and {_MAX_INT32}, inclusive"
            )
        )
    if "nodeSelector" in spec:
        field_errors.labels(spec["nodeSelector"], f"{field}.nodeSelector", causes)
    if "tolerations" in spec:
        check_tolerations(spec["tolerations"], f"{field}.tolerations", causes)
    if "affinity" in spec:
        check_affinity(spec["affinity"], f"{field}.affinity", causes)
    if "topologySpreadConstraints" in spec:
        check_spread(spec["topologySpreadConstraints"], f"{field}.topologySpreadConstraints", causes)
    if "schedulingGates" in spec:
        check_gates(spec["schedulingGates"], field, causes)
    if "evictionResponders" in spec:
        check_responders(spec["evictionResponders"], f"{field}.evictionResponders", causes)
    for key in ("nodeName", "serviceAccountName", "priorityClassName", "schedulerName", "runtimeClassName"):
        name = spec.get(key)
        if name and (why := field_errors.subdomain_problem(name)):
            causes.append(field_errors.invalid(f"{field}.{key}", name, why))
    if "preemptionPolicy" in spec and spec["preemptionPolicy"] not in _PREEMPTION:
        causes.append(field_errors.unsupported(f"{field}.preemptionPolicy", spec["preemptionPolicy"], _PREEMPTION))
    for key in ("hostname", "subdomain"):
        name = spec.get(key)
        if name and (why := field_errors.label_problem(name)):
            causes.append(field_errors.invalid(f"{field}.{key}", name, why))
    if "overhead" in spec:
        check_resources({"limits": spec["overhead"]}, f"{field}.overhead", causes)
    if "resources" in spec:
        check_resources(spec["resources"], f"{field}.resources", causes)


def _check_containers(spec: Manifest, field: str, mountable: frozenset[str], causes: list[FieldError]) -> None:
    names: set[str] = set()
    ports: set[tuple[str, str, int]] = set()
    containers = spec.get("containers")
    if not containers:
        causes.append(field_errors.required(f"{field}.containers"))
    is_on_host = spec.get("hostNetwork", False)
    for index, container in enumerate(containers or ()):
        here = f"{field}.containers[{index}]"
        check_name(container, here, names, causes)
        check_container(container, here, mountable, ports, causes)
        if container.get("restartPolicy"):
            causes.append(field_errors.forbidden(f"{here}.restartPolicy", "may not be set for non-init containers"))
        if is_on_host:
            _check_host_ports(container, here, causes)
    for index, container in enumerate(spec.get("initContainers", ())):
        here = f"{field}.initContainers[{index}]"
        check_name(container, here, names, causes)
        restart = container.get("restartPolicy")
        check_container(container, here, mountable, ports if restart else set(), causes)
        if restart == "Always":
            continue
        if restart:
            causes.append(field_errors.unsupported(f"{here}.restartPolicy", restart, ALWAYS))
        causes += [
            field_errors.forbidden(f"{here}.{name}", "may not be set for init containers without restartPolicy=Always")
            for name in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
            if name in container
        ]
    for index, container in enumerate(spec.get("ephemeralContainers", ())):
        check_name(container, f"{field}.ephemeralContainers[{index}]", names, causes)


def _check_claims(spec: Manifest, field: str, causes: list[FieldError]) -> None:
    claims = spec.get("resourceClaims")
    known = of_pods.check_claims(claims, f"{field}.resourceClaims", causes) if claims else frozenset()
    for kind in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(kind, ())):
            uses = container["resources"].get("claims") if "resources" in container else None
            if uses:
                of_pods.check_uses(uses, known, f"{field}.{kind}[{index}].resources.claims", causes)


def _check_host_ports(container: Manifest, field: str, causes: list[FieldError]) -> None:
    for index, port in enumerate(container.get("ports", ())):
        if port.get("hostPort") and port["hostPort"] != port.get("containerPort"):
            causes.append(
                field_errors.invalid(
                    f"{field}.ports[{index}].containerPort",
                    port.get("containerPort", 0),
                    "must match `hostPort` when `hostNetwork` is true",
                )
            )
