"""Reservation objects (scheduling.koordinator.sh/v1alpha1), read as the model's value.

A template is a whole pod, written by people, and its errors must be reported on the object instead of hiding it. Spec
and status are decoded by themselves, the template by the reader of pods; whatever cannot be read becomes a sentence in
`wrong`, and only an object without a name or UID is refused.
Limits: a template's volumes and gates are not read; `template.spec.nodeName` pins it to that node.
Source: Koordinator, apis/scheduling/v1alpha1/reservation_types.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from math import nan
from typing import TypeVar

import msgspec
from msgspec import Raw, field

from cotenant.drivers.kube.client.errors import UNREADABLE
from cotenant.drivers.kube.kinds.attempting import ReadAttempt
from cotenant.drivers.kube.kinds.durations import duration_s
from cotenant.drivers.kube.kinds.kind import ApiStruct, Kind, Quantities, Strings, Text, Time
from cotenant.drivers.kube.kinds.parts import DatedCondition
from cotenant.drivers.kube.kinds.pod.demands import read_holdings
from cotenant.drivers.kube.kinds.pod.reader import PodReader
from cotenant.drivers.kube.kinds.pod.schema import PodAnnotations, PodMeta, PodObject, PodSpec
from cotenant.drivers.kube.kinds.selectors import Selector, one_of, read_label_selector
from cotenant.drivers.kube.kinds.taints import ApiTaint, read_taints
from cotenant.model.cluster.affinity import NAME_FIELD, NodeAffinity, NodeSelector, NodeSelectorTerm
from cotenant.model.cluster.demands import NO_DEMANDS, NO_HOLDINGS, Holdings
from cotenant.model.cluster.labels import Labels, Requirement, SelectorOperator
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.errors import InvalidInput
from cotenant.model.groups.reservation import (
    KIND,
    TTL_S,
    AllocatePolicy,
    ControllerOwner,
    CurrentOwner,
    ObjectOwner,
    PreAllocation,
    Reservation,
    ReservationCondition,
    ReservationOwner,
    ReservationPhase,
)
from cotenant.model.groups.reservation_notes import ORDER, PRE_ALLOCATION_REQUIRED, RESTRICTED_OPTIONS
from cotenant.model.resources import NOTHING, Amounts

T = TypeVar("T")


class ReservationAnnotations(PodAnnotations, frozen=True):
    """A reservation's annotations: what was given to it, as to a pod, and what its policy is about."""

    restricted_options: Text = field(default=None, name=RESTRICTED_OPTIONS)


class ReservationMeta(ApiStruct, frozen=True):
    """ObjectMeta."""

    name: Text = None
    namespace: Text = None
    uid: Text = None
    resource_version: Text = None
    creation_timestamp: Time | None = None
    labels: Strings = None
    annotations: ReservationAnnotations | None = None


class ReservationObject(ApiStruct, frozen=True):
    """A Reservation, its parts still unread."""

    metadata: ReservationMeta = ReservationMeta()
    spec: Raw = Raw(b"null")
    status: Raw = Raw(b"null")


RESERVATIONS = Kind(KIND, "scheduling.koordinator.sh", "v1alpha1", "reservations", False, ReservationObject)


class _Reference(ApiStruct, frozen=True):
    api_version: Text = None
    kind: Text = None
    namespace: Text = None
    name: Text = None
    uid: Text = None
    controller: bool | None = None


class _Owner(ApiStruct, frozen=True):
    object: _Reference | None = None
    controller: _Reference | None = None
    label_selector: Selector | None = None


class _PreAllocationPolicy(ApiStruct, frozen=True):
    mode: Text = None
    enable_multiple: bool | None = None


class _Spec(ApiStruct, frozen=True):
    template: Raw = Raw(b"null")
    owners: tuple[_Owner, ...] | None = None
    ttl: Text = None
    expires: Text = None
    pre_allocation: bool | None = None
    pre_allocation_policy: _PreAllocationPolicy | None = None
    allocate_once: bool | None = None
    allocate_policy: Text = None
    unschedulable: bool | None = None
    taints: tuple[ApiTaint, ...] | None = None


class _Template(ApiStruct, frozen=True):
    metadata: PodMeta | None = None
    spec: PodSpec | None = None


class _Status(ApiStruct, frozen=True):
    phase: Text = None
    node_name: Text = None
    allocatable: Quantities = None
    allocated: Quantities = None
    current_owners: tuple[_Reference, ...] | None = None
    conditions: tuple[DatedCondition, ...] | None = None


class _Options(ApiStruct, frozen=True):
    resources: tuple[str, ...] | None = None


class ReservationReader:
    """Reads reservations; equal templates are read once."""

    def __init__(self) -> None:
        self._pods = PodReader()

    def read(self, obj: ReservationObject) -> Reservation:
        """Raises `InvalidInput` for one without a name or UID; any other error is a sentence in `wrong`."""
        meta = obj.metadata
        if not (meta.name and meta.uid):
            raise InvalidInput(KIND, meta.name or "", "an object with a name and a UID")
        wrong: list[str] = []
        attempt = ReadAttempt(wrong)

        spec = attempt(_Spec(), lambda: _decoded(obj.spec, _Spec, "spec"))
        status = attempt(_Status(), lambda: _decoded(obj.status, _Status, "status"))
        template = attempt(_Template(), lambda: _decoded(spec.template, _Template, "spec.template"))
        seen = self._template(meta, template)
        wrong += [f"spec.template: {why}" for why in seen.unsupported]
        no_owners: tuple[ReservationOwner, ...] = ()
        owners = attempt(no_owners, lambda: _owners(spec.owners or ()))
        policy = attempt(
            AllocatePolicy.RESTRICTED,
            lambda: one_of(AllocatePolicy, spec.allocate_policy or "", "spec.allocatePolicy"),
        )
        created_s = meta.creation_timestamp.timestamp() if meta.creation_timestamp is not None else 0.0
        return Reservation(
            name=meta.name,
            uid=meta.uid,
            pod=seen.pod,
            owners=owners,
            created_s=created_s,
            scheduler=template.spec.scheduler_name or "" if template.spec is not None else "",
            ttl_s=attempt(TTL_S, lambda: TTL_S if spec.ttl is None else duration_s(spec.ttl, "spec.ttl"))
            if spec.ttl != "0"
            else 0.0,
            expires_s=attempt(nan, lambda: _unix(spec.expires, "spec.expires")),
            pre_allocation=attempt(None, lambda: _pre_allocation(spec, meta.labels)),
            allocate_once=spec.allocate_once is not False,
            policy=policy,
            restricted=attempt((), lambda: _restricted(meta.annotations)),
            unschedulable=bool(spec.unschedulable),
            taints=attempt((), lambda: read_taints(spec.taints or (), "spec.taints")),
            labels=Labels.of(meta.labels or {}),
            order=attempt(0, lambda: _order(meta.labels)),
            demands=replace(
                seen.demands, gang=None, reservation_affinity=None, pre_allocatable_priority=0, exact_match=()
            )
            if seen.demands != NO_DEMANDS
            else NO_DEMANDS,
            holds=_holdings(meta.annotations, wrong if status.node_name else []),
            phase=attempt(
                ReservationPhase.PENDING, lambda: one_of(ReservationPhase, status.phase or "Pending", "status.phase")
            ),
            node=status.node_name or "",
            allocatable=attempt(NOTHING, lambda: _amounts(status.allocatable, "status.allocatable")),
            allocated=attempt(NOTHING, lambda: _amounts(status.allocated, "status.allocated")),
            current=tuple(
                CurrentOwner(owner.namespace or "", owner.name or "", owner.uid or "")
                for owner in status.current_owners or ()
            ),
            conditions=tuple(_condition(condition) for condition in status.conditions or ()),
            wrong=tuple(wrong),
        )

    def _template(self, meta: ReservationMeta, template: _Template) -> ObservedPod:
        written = template.metadata or PodMeta()
        spec = msgspec.structs.replace(template.spec or PodSpec(), volumes=None, scheduling_gates=None)
        metadata = PodMeta(
            name=meta.name, namespace=written.namespace, labels=written.labels, annotations=written.annotations
        )
        seen = self._pods.pod(PodObject(metadata=metadata, spec=spec))
        return replace(seen, pod=_pinned(seen.pod, spec.node_name)) if spec.node_name else seen


PARTS: Mapping[str, type] = {
    "spec": _Spec,
    "spec.template": _Template,
    "status": _Status,
}  # the structs of the parts that `ReservationObject` leaves undecoded, by path


def _decoded(raw: Raw, form: type[T], where: str) -> T:
    if bytes(raw) == b"null":
        return form()
    try:
        return msgspec.json.decode(raw, type=form)
    except UNREADABLE as error:
        raise InvalidInput(
            where, bytes(raw)[:60].decode("utf-8", "replace"), "as the definition of the kind has it", str(error)
        ) from None


def _pinned(pod: Pod, node: str) -> Pod:
    """The pod, on this node only."""
    here = Requirement(NAME_FIELD, SelectorOperator.IN, (node,))
    before = pod.node_affinity
    asked = before.required.terms if before is not None and before.required is not None else (NodeSelectorTerm(),)
    only = NodeSelector(tuple(NodeSelectorTerm(term.expressions, (*term.fields, here)) for term in asked))
    return replace(pod, node_affinity=NodeAffinity(only, before.preferred if before is not None else ()))


def _owners(written: tuple[_Owner, ...]) -> tuple[ReservationOwner, ...]:
    if not written:
        raise InvalidInput("spec.owners", "[]", "at least one owner")
    found = []
    for i, owner in enumerate(written):
        where = f"spec.owners[{i}]"
        one, by = owner.object, owner.controller
        if not any((*_criteria(one), *_criteria(by), owner.label_selector is not None)):
            raise InvalidInput(where, "{}", "an object, a controller or a labelSelector that selects pods")
        found.append(
            ReservationOwner(
                object=None if one is None else ObjectOwner(one.name or "", one.namespace or "", one.uid or ""),
                controller=None
                if by is None
                else ControllerOwner(
                    by.name or "", by.namespace or "", by.uid or "", by.kind or "", by.api_version or "", by.controller
                ),
                selector=read_label_selector(owner.label_selector, f"{where}.labelSelector"),
            )
        )
    return tuple(found)


def _pre_allocation(spec: _Spec, labels: Strings) -> PreAllocation | None:
    if not spec.pre_allocation:
        return None
    policy = spec.pre_allocation_policy or _PreAllocationPolicy()
    mode = policy.mode or "Default"
    if mode not in ("Default", "Cluster"):
        raise InvalidInput("spec.preAllocationPolicy.mode", mode, "Default or Cluster")
    required = (labels or {}).get(PRE_ALLOCATION_REQUIRED) == "true"
    return PreAllocation(bool(policy.enable_multiple), mode == "Cluster", required)


def _criteria(reference: _Reference | None) -> tuple[str | None, ...]:
    return () if reference is None else (reference.name, reference.namespace, reference.uid, reference.kind)


def _restricted(annotations: ReservationAnnotations | None) -> tuple[str, ...]:
    text = annotations.restricted_options if annotations is not None else None
    if not text:
        return ()
    try:
        return msgspec.json.decode(text, type=_Options).resources or ()
    except UNREADABLE as error:
        raise InvalidInput(
            f"annotation {RESTRICTED_OPTIONS}", text, 'JSON such as {"resources": ["cpu"]}', str(error)
        ) from None


def _holdings(annotations: ReservationAnnotations | None, wrong: list[str]) -> Holdings:
    """The devices and CPUs that it was given, as a pod's annotations have them; they count once it has its node."""
    if annotations is None:
        return NO_HOLDINGS
    found = read_holdings(annotations, wrong)
    return replace(found, reservation=None) if found.reservation is not None else found


def _order(labels: Strings) -> int:
    text = (labels or {}).get(ORDER)
    if text is None:
        return 0
    try:
        return int(text) if len(text) < 20 else int("")
    except ValueError:
        raise InvalidInput(f"label {ORDER}", text, "a whole number") from None


def _amounts(written: Quantities, where: str) -> Amounts:
    """Without what is none."""
    return Amounts.of(
        {name: amount for name, amount in Amounts.parse(written or {}, where) if amount and name != "pods"}
    )


def _unix(text: str | None, where: str) -> float:
    if text is None:
        return nan
    try:
        time = msgspec.convert(text, datetime)
    except msgspec.ValidationError:
        raise InvalidInput(where, text, "a time such as 2026-01-31T12:00:00Z") from None
    if time.tzinfo is None:
        raise InvalidInput(where, text, "a time with its zone, such as 2026-01-31T12:00:00Z")
    return time.timestamp()


def _condition(written: DatedCondition) -> ReservationCondition:
    try:
        since_s = _unix(written.last_transition_time, "")
    except InvalidInput:
        since_s = nan
    return ReservationCondition(
        written.type, written.status == "True", written.reason or "", written.message or "", since_s
    )
