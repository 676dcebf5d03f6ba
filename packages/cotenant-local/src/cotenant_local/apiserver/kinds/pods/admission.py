"""Built-in admission of pods: priority, default tolerations, service account, requests from limits.

Sources: Kubernetes documentation of the admission controllers Priority, DefaultTolerationSeconds and ServiceAccount,
and "Resource Management for Pods and Containers" (a limit without a request is the request).
"""

from __future__ import annotations

from cotenant.drivers.kube.manifests.errors import ApiError, Manifest
from cotenant_local.apiserver.kinds.behaviour import ObjectLookup

_NOT_READY = "node.kubernetes.io/not-ready"
_UNREACHABLE = "node.kubernetes.io/unreachable"
_TOLERATION_S = 300
_STORAGE = ("scheduling.k8s.io", "priorityclasses")


def _forbidden(obj: Manifest, why: str) -> ApiError:
    name = obj["metadata"].get("name") or obj["metadata"].get("generateName") or ""
    return ApiError(403, "Forbidden", f'pods "{name}" is forbidden: {why}', name=name, kind="pods")


class Priorities:
    """The priority classes, cached until one changes."""

    def __init__(self) -> None:
        self._version = -1
        self._by_name: dict[str, tuple[int, str]] = {}
        self._default = ""

    def admit(self, pod: Manifest, world: ObjectLookup) -> None:
        """Set the pod's priority from its class. Raises ApiError 403 if the class is unknown or the pod has a
        different priority.
        """
        self._refresh(world)
        spec = pod["spec"]
        name = spec.get("priorityClassName") or self._default
        if name:
            found = self._by_name.get(name)
            if found is None:
                raise _forbidden(pod, f"no PriorityClass with name {name} was found")
            priority, policy = found
            spec["priorityClassName"] = name
        else:
            priority, policy = 0, "PreemptLowerPriority"
        given = spec.get("priority")
        if given is not None and given != priority:
            raise _forbidden(
                pod,
                f"the integer value of priority ({given}) must not be provided in pod spec; priority admission "
                "controller computed "
                f"{priority} from the given PriorityClass name",
            )
        if spec.get("preemptionPolicy") not in (None, policy):
            raise _forbidden(
                pod,
                f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided in pod spec; "
                "priority admission "
                f"controller computed {policy} from the given PriorityClass name",
            )
        spec["priority"] = priority
        spec["preemptionPolicy"] = policy

    def of_class(self, name: str, world: ObjectLookup) -> tuple[str, int, str] | None:
        """The class that counts, its value and its preemption policy; an empty name is the default class.

        None for an unknown one.
        """
        self._refresh(world)
        name = name or self._default
        if not name:
            return "", 0, "PreemptLowerPriority"
        found = self._by_name.get(name)
        return (name, *found) if found is not None else None

    def _refresh(self, world: ObjectLookup) -> None:
        version = world.version(*_STORAGE)
        if version != self._version:
            self._read(world)
            self._version = version

    def _read(self, world: ObjectLookup) -> None:
        self._by_name = {}
        self._default = ""
        best: int | None = None
        for found in world.scan(*_STORAGE):
            name, value = found["metadata"]["name"], int(found.get("value", 0))
            self._by_name[name] = (value, found.get("preemptionPolicy") or "PreemptLowerPriority")
            # Several defaults may exist: the one with the lowest value applies.
            if found.get("globalDefault") and (best is None or value < best):
                best, self._default = value, name


def add_tolerations(spec: Manifest) -> None:
    """Add the default tolerations of five minutes for not-ready and unreachable nodes, unless the pod has its own."""
    tolerations: list[object] = spec.get("tolerations") or []
    covered = set()
    for toleration in tolerations:
        if isinstance(toleration, dict) and toleration.get("effect") in (None, "", "NoExecute"):
            covered.add(toleration.get("key") or "")
    missing = [key for key in (_NOT_READY, _UNREACHABLE) if key not in covered and "" not in covered]
    if missing:
        spec["tolerations"] = [
            *tolerations,
            *(
                {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _TOLERATION_S}
                for key in missing
            ),
        ]


def fill_requests(spec: Manifest) -> None:
    """Set missing requests to the limits."""
    for group in ("containers", "initContainers"):
        for container in spec.get(group) or ():
            resources = container.get("resources") if isinstance(container, dict) else None
            limits = resources.get("limits") if isinstance(resources, dict) else None
            if isinstance(resources, dict) and isinstance(limits, dict) and limits:
                requests = resources.get("requests")
                resources["requests"] = {**limits, **requests} if isinstance(requests, dict) else dict(limits)


def set_account(spec: Manifest) -> None:
    """Default the service account, and set both of its field names."""
    name = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
    spec["serviceAccountName"] = spec["serviceAccount"] = name
