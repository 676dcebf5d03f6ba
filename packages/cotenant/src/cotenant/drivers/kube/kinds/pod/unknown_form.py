"""Pods read with fields that this version does not know: which of them a pod sets.

Structs skip what they do not name, and that is what makes them fast. So where a server has unknown fields, its pods are
read by subclasses of the same structs, made at run time, that have these fields as well, undecoded; where it has none,
nothing changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import NoneType, UnionType
from typing import Union, cast, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Raw, Struct, defstruct

from cotenant.drivers.kube.kinds.kind import Kind
from cotenant.drivers.kube.kinds.pod.schema import PODS, PodObject, PodSpec
from cotenant.model.json_object import JsonValue

_PREFIX = "unknown__"  # of the attributes; no field of the API has two underscores


def pods_with(paths: Iterable[tuple[str, ...]]) -> Kind[PodObject]:
    """The kind of pods whose spec has these fields too."""
    wanted = tuple(paths)
    if not wanted:
        return PODS
    spec = _extended(PodSpec, wanted)
    form = defstruct("PodObject", [("spec", spec | None, None)], bases=(PodObject,), frozen=True, kw_only=True)
    return Kind(PODS.name, PODS.group, PODS.version, PODS.plural, PODS.namespaced, cast(type[PodObject], form))


def set_fields(spec: PodSpec) -> tuple[str, ...]:
    """The unknown fields that a spec sets, each once, such as `spec.affinity.newField`."""
    if type(spec) is PodSpec:
        return ()
    return tuple(dict.fromkeys(_set(spec, "spec")))


def _extended(form: type[Struct], paths: tuple[tuple[str, ...], ...]) -> type[Struct]:
    hints, names = get_type_hints(form), {member.encode_name: member.name for member in msgspec.structs.fields(form)}
    below: dict[str, list[tuple[str, ...]]] = {}
    made: list[JsonValue] = []
    for first, *rest in paths:
        if rest:
            below.setdefault(first, []).append(tuple(rest))
        elif first not in names:
            made.append((f"{_PREFIX}{first}", Raw, msgspec.field(default=None, name=first)))
    for first, further in below.items():
        name = names.get(first)
        if name is not None:
            made.append((name, _replaced(hints[name], tuple(further)), msgspec.field(default=None, name=first)))
    return defstruct(form.__name__, made, bases=(form,), frozen=True, kw_only=True)


def _replaced(hint: object, paths: tuple[tuple[str, ...], ...]) -> object:
    """The same type with the structs in it extended."""
    if isinstance(hint, type) and issubclass(hint, Struct):
        return _extended(hint, paths)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        members = tuple(member if member is NoneType else _replaced(member, paths) for member in arguments)
        return Union[members]  # noqa: UP007
    if origin is tuple:
        return tuple[_replaced(arguments[0], paths), ...]  # type: ignore[misc]
    return hint


def _set(value: object, path: str) -> Iterator[str]:
    if isinstance(value, tuple):
        for member in value:
            yield from _set(member, path)
    elif isinstance(value, Struct):
        for member in msgspec.structs.fields(type(value)):
            found = getattr(value, member.name)
            if member.name.startswith(_PREFIX):
                if found is not None and bytes(found) != b"null":
                    yield f"{path}.{member.encode_name}"
            elif isinstance(found, tuple | Struct):
                yield from _set(found, f"{path}.{member.encode_name}")
