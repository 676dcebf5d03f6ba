"""Declarations of workload kinds, read from YAML: those of the package, and those of a folder.

    kind: LeaderWorkerSet                               # what owner references name
    api: leaderworkerset.x-k8s.io/v1                    # group and version in which it is read
    plural: leaderworkersets
    name: leaderworkerset.sigs.k8s.io/name              # label of its pods with its name; without it owners are walked
    group: leaderworkerset.sigs.k8s.io/group-index      # label of its pods with their gang; without it all are one
    role: leaderworkerset.sigs.k8s.io/worker-index      # label of its pods with what they are in it
    replicas: spec.replicas|1 * spec.leaderWorkerTemplate.size|1    # an expression of model/groups/object_number.py
    minimum: spec.leaderWorkerTemplate.size|1           # that must run together; $replicas stands for the line above
    paused: spec.suspend|0                              # not 0: it is left alone
    ready: status.readyReplicas|0

`kind`, `api`, `plural` and `replicas` are required. A file of the folder takes the place of the package's for the same
kind and group.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from pathlib import Path

import yaml  # type: ignore[import-untyped]

from cotenant.model.errors import InvalidInput
from cotenant.model.groups.object_number import ObjectNumber
from cotenant.model.groups.workload_kind import WorkloadKind

_NEEDED = ("kind", "api", "plural", "replicas")
_NUMBERS = ("replicas", "minimum", "paused", "ready")
_LABELS = {"name": "name_label", "group": "group_label", "role": "role_label"}
_FIELDS = frozenset((*_NEEDED, *_NUMBERS, *_LABELS))
_API = re.compile(r"[a-z0-9.-]+\.[a-z0-9.-]+/v[0-9][a-z0-9]*")


def read_kind(text: str, where: str) -> WorkloadKind:
    """One declaration. Raises `InvalidInput` that names the field."""
    try:
        written = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InvalidInput(where, str(error).splitlines()[0], "YAML") from None
    if not isinstance(written, dict):
        raise InvalidInput(where, type(written).__name__, f"a map with the fields {', '.join(_NEEDED)}")
    for name, value in written.items():
        if name not in _FIELDS:
            raise InvalidInput(f"{where}: {name}", value, f"one of {', '.join(sorted(_FIELDS))}")
        if not isinstance(value, str) or not value.strip():
            raise InvalidInput(f"{where}: {name}", value, "text", 'numbers are quoted, such as "1"')
    for name in _NEEDED:
        if name not in written:
            raise InvalidInput(f"{where}: {name}", "", "a value")
    if not _API.fullmatch(written["api"]):
        raise InvalidInput(f"{where}: api", written["api"], "GROUP/VERSION of a custom kind, such as example.com/v1")
    numbers = {
        name: ObjectNumber(written[name].replace("$replicas", f"({written['replicas']})"), f"{where}: {name}")
        for name in _NUMBERS
        if name in written
    }
    labels = {field: written[name] for name, field in _LABELS.items() if name in written}
    return WorkloadKind(
        written["kind"],
        written["api"],
        written["plural"],
        numbers["replicas"],
        minimum=numbers.get("minimum"),
        paused=numbers.get("paused"),
        ready=numbers.get("ready"),
        **labels,
    )


@cache
def packaged() -> tuple[WorkloadKind, ...]:
    """The kinds that the package declares."""
    folder = files(__package__ or __name__).joinpath("kinds")
    found = sorted((entry for entry in folder.iterdir() if entry.name.endswith(".yaml")), key=lambda entry: entry.name)
    return tuple(read_kind(entry.read_text(), entry.name) for entry in found)


def workload_kinds(folder: Path | None = None, field: str = "--workload-kinds") -> tuple[WorkloadKind, ...]:
    """The package's kinds and those of a folder's `*.yaml`. Raises `InvalidInput`."""
    if folder is None:
        return packaged()
    if not folder.is_dir():
        raise InvalidInput(field, folder, "a folder with YAML files")
    own: list[WorkloadKind] = []
    for path in sorted(folder.glob("*.yaml")):
        try:
            own.append(read_kind(path.read_text(), path.name))
        except (OSError, UnicodeError) as error:
            raise InvalidInput(field, path, "a file that can be read", str(error)) from None
    return joined(packaged(), own)


def joined(usual: Iterable[WorkloadKind], own: Iterable[WorkloadKind]) -> tuple[WorkloadKind, ...]:
    """One declaration of each kind and group: the own one where there is one."""
    found = {(entry.group, entry.kind): entry for entry in usual}
    found.update({(entry.group, entry.kind): entry for entry in own})
    return tuple(found.values())
