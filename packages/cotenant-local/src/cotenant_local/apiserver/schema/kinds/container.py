"""Containers: defaults and rules.

Sources: Kubernetes API reference v1 Container, Probe, ResourceRequirements; "Resource Management for Pods and
Containers" (requests never above limits, extended resources whole and not overcommitted).
"""

from __future__ import annotations

from cotenant.drivers.kube.manifests.errors import FieldError, Manifest
from cotenant.model.json_object import JsonValue
from cotenant_local.apiserver.schema.kinds import field_errors

_PULL = frozenset({"Always", "IfNotPresent", "Never"})
_MESSAGE = frozenset({"File", "FallbackToLogsOnError"})
PROTOCOLS = frozenset({"TCP", "UDP", "SCTP"})
_STANDARD = frozenset({"cpu", "memory", "ephemeral-storage", "storage"})
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc")
_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")


def default_container(container: Manifest) -> None:
    """Set the defaults of a container."""
    if "imagePullPolicy" not in container:
        container["imagePullPolicy"] = _pull_policy(container.get("image", ""))
    if "terminationMessagePath" not in container:
        container["terminationMessagePath"] = "/dev/termination-log"
    if "terminationMessagePolicy" not in container:
        container["terminationMessagePolicy"] = "File"
    if "resources" not in container:
        container["resources"] = {}
    for port in container.get("ports", ()):
        if "protocol" not in port:
            port["protocol"] = "TCP"
    for variable in container.get("env", ()):
        source = variable.get("valueFrom")
        if source and "fieldRef" in source:
            source["fieldRef"].setdefault("apiVersion", "v1")
    for name in _PROBES:
        probe = container.get(name)
        if probe is not None:
            _default_probe(probe)
    lifecycle = container.get("lifecycle")
    if lifecycle:
        for hook in lifecycle.values():
            if isinstance(hook, dict) and "httpGet" in hook:
                _default_http(hook["httpGet"])


def default_requests(container: Manifest) -> None:
    """Default missing requests to the limits (pods only: templates are left unchanged)."""
    resources: Manifest = container.get("resources", {})
    limits = resources.get("limits")
    if limits:
        requests = resources.setdefault("requests", {})
        for name, amount in limits.items():
            if name not in requests:
                requests[name] = amount


def default_host_ports(container: Manifest) -> None:
    """With host networking, default the host port to the container port."""
    for port in container.get("ports", ()):
        if not port.get("hostPort"):
            port["hostPort"] = port["containerPort"]


def _pull_policy(image: str) -> str:
    if "@" in image:
        return "IfNotPresent"
    tag = image.rpartition("/")[2].partition(":")[2]
    return "Always" if tag in ("", "latest") else "IfNotPresent"


def _default_probe(probe: Manifest) -> None:
    probe.setdefault("timeoutSeconds", 1)
    probe.setdefault("periodSeconds", 10)
    probe.setdefault("successThreshold", 1)
    probe.setdefault("failureThreshold", 3)
    if "httpGet" in probe:
        _default_http(probe["httpGet"])
    elif "grpc" in probe:
        probe["grpc"].setdefault("service", "")


def _default_http(action: Manifest) -> None:
    action.setdefault("path", "/")
    action.setdefault("scheme", "HTTP")


def check_container(
    container: Manifest, field: str, volumes: object, taken_ports: set[tuple[str, str, int]], causes: list[FieldError]
) -> None:
    """Check one container. `volumes`: names that it may mount; `taken_ports`: host ports used by the pod's previous
    containers.
    """
    if not container.get("image"):
        causes.append(field_errors.required(f"{field}.image"))
    elif container["image"] != container["image"].strip():
        causes.append(
            field_errors.invalid(f"{field}.image", container["image"], "must not have leading or trailing whitespace")
        )
    if container.get("imagePullPolicy", "Always") not in _PULL:
        causes.append(field_errors.unsupported(f"{field}.imagePullPolicy", container["imagePullPolicy"], _PULL))
    if container.get("terminationMessagePolicy", "File") not in _MESSAGE:
        causes.append(
            field_errors.unsupported(
                f"{field}.terminationMessagePolicy", container["terminationMessagePolicy"], _MESSAGE
            )
        )
    ports = container.get("ports")
    if ports:
        _check_ports(ports, f"{field}.ports", taken_ports, causes)
    env = container.get("env")
    if env:
        _check_env(env, f"{field}.env", causes)
    resources = container.get("resources")
    if resources:
        check_resources(resources, f"{field}.resources", causes)
    mounts = container.get("volumeMounts")
    if mounts:
        _check_mounts(mounts, f"{field}.volumeMounts", volumes, causes)
    for name in _PROBES:
        if name in container:
            _check_probe(container[name], name, f"{field}.{name}", causes)


def check_name(container: Manifest, field: str, taken: set[str], causes: list[FieldError]) -> None:
    """Check a container's name against the rules and the pod's other containers."""
    name = container.get("name")
    if not name:
        causes.append(field_errors.required(f"{field}.name"))
        return
    if why := field_errors.label_problem(name):
        causes.append(field_errors.invalid(f"{field}.name", name, why))
    if name in taken:
        causes.append(field_errors.duplicate(f"{field}.name", name))
    taken.add(name)


def _check_ports(ports: list[Manifest], field: str, taken: set[tuple[str, str, int]], causes: list[FieldError]) -> None:
    names: set[str] = set()
    for index, port in enumerate(ports):
        name = port.get("name")
        if name:
            if why := field_errors.port_name_problem(name):
                causes.append(field_errors.invalid(f"{field}[{index}].name", name, why))
            elif name in names:
                causes.append(field_errors.duplicate(f"{field}[{index}].name", name))
            names.add(name)
        number = port.get("containerPort", 0)
        if number == 0:
            causes.append(field_errors.required(f"{field}[{index}].containerPort"))
        elif not 1 <= number <= 65535:
            field_errors.port(number, f"{field}[{index}].containerPort", causes)
        protocol = port.get("protocol")
        if protocol not in PROTOCOLS:
            field_errors.one_of(protocol, PROTOCOLS, f"{field}[{index}].protocol", causes)
        host_port = port.get("hostPort", 0)
        if host_port:
            field_errors.port(host_port, f"{field}[{index}].hostPort", causes)
            key = (str(protocol), port.get("hostIP", ""), host_port)
            if key in taken:
                causes.append(field_errors.duplicate(f"{field}[{index}].hostPort", f"{key[0]}/{key[1]}/{key[2]}"))
            taken.add(key)


def _check_env(env: list[Manifest], field: str, causes: list[FieldError]) -> None:
    for index, variable in enumerate(env):
        name = variable.get("name")
        if not name:
            causes.append(field_errors.required(f"{field}[{index}].name"))
        elif "=" in name or not name.isascii() or not name.isprintable():
            causes.append(
                field_errors.invalid(
                    f"{field}[{index}].name",
                    name,
                    "a valid environment variable name must consist only of printable ASCII characters other than '='",
                )
            )
        source = variable.get("valueFrom")
        if source is not None:
            named = [entry for entry in _SOURCES if entry in source]
            if variable.get("value"):
                causes.append(
                    field_errors.invalid(
                        f"{field}[{index}].valueFrom", "", "may not be specified when `value` is not empty"
                    )
                )
            elif not named:
                causes.append(
                    field_errors.invalid(
                        f"{field}[{index}].valueFrom",
                        "",
                        "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or "
                        "`fileKeyRef`",
                    )
                )
            elif len(named) > 1:
                causes.append(
                    field_errors.invalid(
                        f"{field}[{index}].valueFrom", "", "may not have more than one field specified at a time"
                    )
                )


def check_resources(resources: Manifest, field: str, causes: list[FieldError]) -> None:
    """Check requests and limits: names, amounts, and requests against limits."""
    limits = resources.get("limits") or {}
    requests = resources.get("requests") or {}
    for name, amount in limits.items():
        _check_amount(name, amount, f"{field}.limits", causes)
    for name, amount in requests.items():
        requested = _check_amount(name, amount, f"{field}.requests", causes)
        limit = limits.get(name)
        if limit is None:
            if _is_extended(name):
                causes.append(
                    field_errors.required(f"{field}.limits", "Limit must be set for non overcommitable resources")
                )
            continue
        maximum = field_errors.nano(limit)
        if requested > maximum:
            causes.append(
                field_errors.invalid(
                    f"{field}.requests", amount, f"must be less than or equal to {name} limit of {limit}"
                )
            )
        elif requested < maximum and (_is_extended(name) or name.startswith("hugepages-")):
            causes.append(
                field_errors.invalid(f"{field}.requests", amount, f"must be equal to {name} limit of {limit}")
            )


def _check_amount(name: str, amount: str, field: str, causes: list[FieldError]) -> int:
    requested = field_errors.nano(amount)
    if requested < 0:
        causes.append(field_errors.invalid(f"{field}[{name}]", amount, field_errors.NOT_NEGATIVE))
    if name not in _STANDARD:
        if why := field_errors.key_problem(name):
            causes.append(field_errors.invalid(field, name, why))
        elif "/" not in name and not name.startswith("hugepages-"):
            causes.append(field_errors.invalid(field, name, "must be a standard resource type or fully qualified"))
        elif not field_errors.is_whole(requested) and (_is_extended(name) or name.startswith("hugepages-")):
            causes.append(field_errors.invalid(f"{field}[{name}]", amount, "must be an integer"))
    return requested


def _is_extended(name: str) -> bool:
    """Whether it is whole and never overcommitted: a name with a prefix that is not of Kubernetes itself, such as
    `kubernetes.io/batch-cpu`.
    """
    return "/" in name and "kubernetes.io/" not in name


def _check_mounts(mounts: list[Manifest], field: str, volumes: JsonValue, causes: list[FieldError]) -> None:
    paths: set[str] = set()
    for index, mount in enumerate(mounts):
        name = mount.get("name")
        if not name:
            causes.append(field_errors.required(f"{field}[{index}].name"))
        elif name not in volumes:
            causes.append(field_errors.not_found(f"{field}[{index}].name", name))
        path = mount.get("mountPath")
        if not path:
            causes.append(field_errors.required(f"{field}[{index}].mountPath"))
        elif path in paths:
            causes.append(field_errors.invalid(f"{field}[{index}].mountPath", path, "must be unique"))
        else:
            paths.add(path)


def _check_probe(probe: Manifest, name: str, field: str, causes: list[FieldError]) -> None:
    handlers = [entry for entry in _HANDLERS if entry in probe]
    if not handlers:
        causes.append(field_errors.required(field, "must specify a handler type"))
    causes += [
        field_errors.forbidden(f"{field}.{extra}", "may not specify more than 1 handler type") for extra in handlers[1:]
    ]
    for key in ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"):
        value = probe.get(key)
        if value is not None and value < 0:
            causes.append(field_errors.invalid(f"{field}.{key}", value, field_errors.NOT_NEGATIVE))
    if name != "readinessProbe" and probe.get("successThreshold", 1) != 1:
        causes.append(field_errors.invalid(f"{field}.successThreshold", probe["successThreshold"], "must be 1"))
    for handler in ("httpGet", "tcpSocket"):
        action = probe.get(handler)
        if action is not None:
            if "port" not in action:
                causes.append(field_errors.required(f"{field}.{handler}.port"))
            else:
                field_errors.port_or_name(action["port"], f"{field}.{handler}.port", causes)
