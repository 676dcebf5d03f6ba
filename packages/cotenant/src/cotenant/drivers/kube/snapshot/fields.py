"""What is kept of an object: exactly the fields that the structs of our readers name.

A list of what to leave out forgets the next field that someone adds to an API; a list of what to keep cannot. It is
derived from the structs that objects are decoded into, so it never has less than a reader needs and never more than one
names: no environment, arguments, ConfigMap or Secret has a field there. Annotations are the ones that a struct names,
or those of `ANNOTATIONS` where a struct has them as a mapping.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from msgspec import inspect

from cotenant.model.cluster.annotations import ON_NODES
from cotenant.model.cluster.managed import (
    NORMALIZATION_ANNOTATION,
    RESERVATION_ANNOTATION,
    THIRD_PARTY_ANNOTATION,
)
from cotenant.model.devices.partition import GPU_PARTITIONS

ANNOTATIONS = frozenset(
    {
        *ON_NODES,
        NORMALIZATION_ANNOTATION,
        RESERVATION_ANNOTATION,
        THIRD_PARTY_ANNOTATION,
        GPU_PARTITIONS,
        "node.koordinator.sh/colocation-strategy",
        "node.koordinator.sh/network-bandwidth",
        "resource.kubernetes.io/extended-resource-claim",
        "storageclass.kubernetes.io/is-default-class",
        "volume.beta.kubernetes.io/storage-class",
        "volume.kubernetes.io/selected-node",
    }
)

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"


@dataclass(frozen=True, slots=True)
class WholeField:
    """Kept as it is: a text, a number, a mapping of texts, or what only our own kinds have."""


@dataclass(frozen=True, slots=True)
class NamedKeys:
    """A mapping of which only these keys are kept."""

    fields: Mapping[str, Fields]


@dataclass(frozen=True, slots=True)
class Every:
    """A list, or a mapping with any keys: the same is kept of each member."""

    member: Fields
    only: frozenset[str] | None = None  # keys of a mapping; None = all


Fields: TypeAlias = WholeField | NamedKeys | Every
WHOLE = WholeField()
NOTHING = NamedKeys({})


def fields_of(*forms: type, instead: Mapping[str, type] | None = None) -> Fields:
    """What these structs name together. `instead`: structs of parts that a form leaves undecoded, by dotted path;
    undecoded parts without one are left out.
    """
    found: Fields = NOTHING
    for form in forms:
        found = merged(found, _of(inspect.type_info(form), "", instead or {}))
    return found


def merged(one: Fields, other: Fields) -> Fields:
    """What either keeps."""
    if isinstance(one, NamedKeys) and isinstance(other, NamedKeys):
        both = dict(one.fields)
        for name, fields in other.fields.items():
            both[name] = merged(both[name], fields) if name in both else fields
        return NamedKeys(both)
    if isinstance(one, Every) and isinstance(other, Every):
        only = None if one.only is None or other.only is None else one.only | other.only
        return Every(merged(one.member, other.member), only)
    if isinstance(one, WholeField) or one == NOTHING:
        return other if one == NOTHING else one
    return other if isinstance(other, WholeField) else one


def kept(value: Json, fields: Fields) -> Json:
    """The part of a value that is kept. A value of another form than its field's is kept if it is a text or number:
    the reader then says what is wrong with it.
    """
    if isinstance(fields, WholeField):
        return value
    if isinstance(fields, NamedKeys):
        if not isinstance(value, dict):
            return value if not isinstance(value, list) else None
        found: dict[str, Json] = {}
        for name, inner in fields.fields.items():
            part = value.get(name)
            if part is not None:
                found[name] = part if inner is WHOLE else kept(part, inner)
        return found
    if isinstance(value, list):
        return [kept(member, fields.member) for member in value]
    if isinstance(value, dict):
        names: Iterable[str] = value if fields.only is None else (name for name in value if name in fields.only)
        return {name: kept(value[name], fields.member) for name in names}
    return value


def _of(found: inspect.Type, path: str, instead: Mapping[str, type]) -> Fields:
    if isinstance(found, inspect.Metadata):
        return _of(found.type, path, instead)
    if isinstance(found, inspect.UnionType):
        whole: Fields | None = None
        for one in found.types:
            if isinstance(one, inspect.NoneType):
                continue
            fields = _of(one, path, instead)
            whole = fields if whole is None else merged(whole, fields)
        return WHOLE if whole is None else whole
    if isinstance(found, inspect.StructType):
        return NamedKeys({f.encode_name: _of(f.type, _below(path, f.encode_name), instead) for f in found.fields})
    if isinstance(found, inspect.VarTupleType | inspect.ListType):
        return Every(_of(found.item_type, path, instead))
    if isinstance(found, inspect.DictType):
        is_annotations = path.rpartition(".")[2] == "annotations"
        return Every(_of(found.value_type, path, instead), ANNOTATIONS if is_annotations else None)
    if isinstance(found, inspect.RawType):
        form = instead.get(path)
        return NOTHING if form is None else _of(inspect.type_info(form), path, instead)
    if isinstance(found, inspect.AnyType):
        form = instead.get(path)
        return WHOLE if form is None else _of(inspect.type_info(form), path, instead)
    return WHOLE


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
