"""Compose files: the part of the specification that a group of containers on several hosts can have.

Source: the Compose Specification (github.com/compose-spec). `x-tags` is ours: the tags of hosts that a service may run
on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cotenant.model.errors import InvalidInput
from cotenant.model.fleet.durations import duration_s
from cotenant.model.fleet.template import ContainerTemplate, HealthCheck
from cotenant.model.json_object import JsonMapping
from cotenant.services.fleet.templates import values
from cotenant.services.fleet.templates.mounts import NamedVolume, mounts_of, volumes_of
from cotenant.services.fleet.templates.ports import ports

FILE_KEYS = ("name", "version", "services", "volumes")
KEYS = (
    "image", "command", "entrypoint", "environment", "ports", "depends_on", "healthcheck", "deploy", "restart",
    "labels", "volumes", "profiles",
    "network_mode", "cpus", "mem_limit", "stop_grace_period", "x-tags",
)  # fmt: skip
_ON_ONE_MACHINE = "containers of a group may be on several hosts: publish `ports`, or say `network_mode: host`"
_WRITTEN_OUT = "`docker compose config` writes the file with these in place"
REFUSED = {
    "networks": _ON_ONE_MACHINE, "links": _ON_ONE_MACHINE, "extends": _WRITTEN_OUT, "include": _WRITTEN_OUT,
    "build": "images are not built here: push one, and name it",
    "secrets": "files of this machine are not sent to hosts: mount one that is there, by `volumes`",
    "configs": "files of this machine are not sent to hosts: mount one that is there, by `volumes`",
}  # fmt: skip
_HEALTH_KEYS = ("test", "interval", "timeout", "retries", "start_period", "disable")
_MAX_GRACE_S = 600
_MAX_RESTARTS_DIGITS = 7
_RESTART = ("no", "always", "unless-stopped", "on-failure")


@dataclass(frozen=True, slots=True)
class ComposePlace:
    """What a file is read beside: the command's environment, the file's folder, and the profiles that are on."""

    ours: Mapping[str, str]
    folder: Path = Path()
    profiles: tuple[str, ...] = ()


def containers_of(
    services: JsonMapping, place: ComposePlace, volumes: object = None, group: str = ""
) -> tuple[ContainerTemplate, ...]:
    """One container for each service that has no profile, or one that is on. `volumes`: the file's own."""
    known = volumes_of(volumes, group)
    given = {str(name): values.mapping(f"services.{name}", service) for name, service in services.items()}
    made = tuple(_service(name, service, place, known) for name, service in given.items())
    off = {name: profiles for name, service in given.items() if (profiles := _off(name, service, place.profiles))}
    on = tuple(container for container in made if container.appkey not in off)
    if made and not on:
        known_profiles = ", ".join(sorted({profile for profiles in off.values() for profile in profiles}))
        raise InvalidInput("services", ", ".join(off), "a service that is on", f"--profile is one of {known_profiles}")
    for container in on:
        for other in container.after:
            if other in off:
                where = f"services.{container.appkey}.depends_on"
                raise InvalidInput(where, other, "a service that is on", f"--profile {off[other][0]}, as it says")
    return on


def _off(name: str, given: JsonMapping, on: tuple[str, ...]) -> tuple[str, ...]:
    """The service's profiles, none of which is on; nothing where it is."""
    profiles = values.names(f"services.{name}.profiles", given.get("profiles"))
    return () if "*" in on or set(profiles) & set(on) else profiles


def refuse_unsupported(where: str, given: JsonMapping, known: tuple[str, ...], prefix: str = "") -> None:
    """As `refuse_unknown`; of keys that Compose has and that are not supported, also why and what to do."""
    for key, why in REFUSED.items():
        if key in given and key not in known:
            raise InvalidInput(f"{prefix}{key}", given[key], "no such key", why)
    values.refuse_unknown(where, given, known)


def _service(
    name: str, given: JsonMapping, place: ComposePlace, volumes: Mapping[str, NamedVolume]
) -> ContainerTemplate:
    ours = place.ours
    refuse_unsupported(f"services.{name}", given, KEYS, f"services.{name}.")
    if not given.get("image"):
        raise InvalidInput(f"services.{name}.image", "missing", "an image", "images are not built here")
    requested, limited = _resources(name, given.get("deploy"))
    network = values.text(f"services.{name}.network_mode", given.get("network_mode", ""))
    if network not in ("", "host", "bridge", "none"):
        raise InvalidInput(f"services.{name}.network_mode", network, "host, bridge or none")
    restart, max_restarts = _restart(f"services.{name}.restart", given.get("restart", "no"))
    return ContainerTemplate(
        appkey=name,
        image=values.text(f"services.{name}.image", given["image"]),
        command=_words(f"services.{name}.command", given.get("command")),
        entrypoint=_words(f"services.{name}.entrypoint", given.get("entrypoint")),
        environment=values.environment(f"services.{name}.environment", given.get("environment"), ours),
        labels=values.environment(f"services.{name}.labels", given.get("labels"), {}),
        ports=ports(f"services.{name}.ports", given.get("ports"), are_chosen=True),
        after=_after(name, given.get("depends_on")),
        cpu_milli=requested[0],
        memory_bytes=requested[1],
        cpu_limit_milli=values.cpu_milli(f"services.{name}.cpus", given["cpus"]) if "cpus" in given else limited[0],
        memory_limit_bytes=(
            values.size_bytes(f"services.{name}.mem_limit", given["mem_limit"]) if "mem_limit" in given else limited[1]
        ),
        stop_grace_s=_grace_s(f"services.{name}.stop_grace_period", given.get("stop_grace_period", "10s")),
        restart=restart,
        max_restarts=max_restarts,
        health=_health(name, given.get("healthcheck")),
        network=network,
        host_tags=values.names(f"services.{name}.x-tags", given.get("x-tags")),
        mounts=mounts_of(f"services.{name}.volumes", given.get("volumes"), volumes, place.folder),
    )


def _words(where: str, given: object) -> tuple[str, ...]:
    found = values.words(where, given)
    if given is not None and not found:
        raise InvalidInput(where, given, "words", "what the image says stays where the key is left out")
    return found


def _restart(where: str, given: object) -> tuple[str, int]:
    """(policy, most restarts): `on-failure:3` bounds them."""
    said = values.text(where, given)
    policy, colon, most = said.partition(":")
    policy = "no" if policy == "false" else policy  # YAML reads a bare `no` as false
    if policy in _RESTART and not colon:
        return policy, 0
    if policy == "on-failure" and most.isdecimal() and len(most) <= _MAX_RESTARTS_DIGITS and int(most):
        return policy, int(most)
    raise InvalidInput(where, said, f"{', '.join(_RESTART)}, or on-failure:N")


def _grace_s(where: str, given: str | float) -> int:
    seconds = round(duration_s(where, given))
    if seconds > _MAX_GRACE_S:
        raise InvalidInput(where, given, f"at most {_MAX_GRACE_S} seconds")
    return seconds


def _after(name: str, given: object) -> tuple[str, ...]:
    """Those it depends on; each is waited for until it is ready, which is healthy where it has a health check."""
    if isinstance(given, Mapping):
        for other, how in given.items():
            where = f"services.{name}.depends_on.{other}"
            said = values.mapping(where, how or {})
            values.refuse_unknown(where, said, ("condition", "required"))
            if not values.flag(f"{where}.required", said.get("required", True)):
                raise InvalidInput(f"{where}.required", said["required"], "true", "all of a group run, or none")
            condition = said.get("condition", "service_started")
            if condition not in ("service_started", "service_healthy"):
                raise InvalidInput(f"{where}.condition", condition, "service_started or service_healthy")
        return tuple(str(other) for other in given)
    return values.names(f"services.{name}.depends_on", given)


def _resources(name: str, given: object) -> tuple[tuple[int, int], tuple[int, int]]:
    """(CPU, memory) requested, and limits. Where nothing is requested, nothing is."""
    where = f"services.{name}.deploy"
    if given is None:
        return (0, 0), (0, 0)
    deploy = values.mapping(where, given)
    values.refuse_unknown(where, deploy, ("resources",))
    resources = values.mapping(f"{where}.resources", deploy.get("resources") or {})
    values.refuse_unknown(f"{where}.resources", resources, ("reservations", "limits"))
    return (
        _amounts(f"{where}.resources.reservations", resources.get("reservations")),
        _amounts(f"{where}.resources.limits", resources.get("limits")),
    )


def _amounts(where: str, given: object) -> tuple[int, int]:
    if given is None:
        return 0, 0
    amounts = values.mapping(where, given)
    values.refuse_unknown(where, amounts, ("cpus", "memory"))
    cpu = values.cpu_milli(f"{where}.cpus", amounts["cpus"]) if "cpus" in amounts else 0
    memory = values.size_bytes(f"{where}.memory", amounts["memory"]) if "memory" in amounts else 0
    return cpu, memory


def _health(name: str, given: object) -> HealthCheck | None:
    if given is None:
        return None
    where = f"services.{name}.healthcheck"
    check = values.mapping(where, given)
    values.refuse_unknown(where, check, _HEALTH_KEYS)
    if values.flag(f"{where}.disable", check.get("disable", False)):
        return HealthCheck(("NONE",))
    test = check.get("test")
    if isinstance(test, str):
        test = ["CMD-SHELL", test]
    if not isinstance(test, list) or not test or test[0] not in ("CMD", "CMD-SHELL", "NONE"):
        raise InvalidInput(f"{where}.test", test, "a text, or a list that begins with CMD, CMD-SHELL or NONE")
    return HealthCheck(
        tuple(values.text(f"{where}.test", word) for word in test),
        duration_s(f"{where}.interval", check.get("interval", "30s")),
        duration_s(f"{where}.timeout", check.get("timeout", "30s")),
        duration_s(f"{where}.start_period", check.get("start_period", 0)),
        values.number(f"{where}.retries", check.get("retries", 3), "a number of tries, as 3"),
    )
