"""Questions to the hub, and the job file of `where`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import msgspec

from cotenant.drivers.kube.kinds.attempting import ReadAttempt
from cotenant.drivers.kube.kinds.pod.resources import read_requests
from cotenant.drivers.kube.kinds.pod.schema import PodSpec, PodStatus
from cotenant.drivers.nats.client import connect
from cotenant.engine.federation.hub import FederationView
from cotenant.model.document import parse
from cotenant.model.errors import InvalidInput, Permanent, Transient
from cotenant.policy.federation.statement import MAX_AMOUNT
from cotenant.policy.federation.where import JobNeeds
from cotenant.services.fleet.federation.envelopes import VIEW_SUBJECT, EnvelopeKind, is_by, opened
from cotenant.services.fleet.federation.members import federation_dir, hub_key
from cotenant.services.fleet.federation.own_statement import lent_of, vector_of
from cotenant.services.fleet.places import BusOptions, access_of

_ANSWER_S = 5.0
_MAX_PODS = 1_000_000
_COUNTS = ("completions", "parallelism", "replicas")


def ask_view(options: BusOptions, given_key: str) -> FederationView:
    """What the hub knows. Raises `InvalidInput`, `Transient`, `Permanent` for an answer that another one signed."""
    state_dir = federation_dir(options.state_dir)
    public = hub_key(given_key, state_dir)
    access = access_of(BusOptions(options.url, options.key, options.ca, options.name or "asker", state_dir))

    async def asked() -> bytes:
        bus = await connect(access, within_s=_ANSWER_S)
        try:
            return (await bus.request(VIEW_SUBJECT, b"", timeout_s=_ANSWER_S)).data
        except TimeoutError:
            raise Transient(f"no hub answers within {_ANSWER_S:g} s") from None
        finally:
            await bus.close()

    data = asyncio.run(asked())
    if not is_by(EnvelopeKind.VIEW, data, public):
        raise Permanent("the answer is not signed by the hub's key")
    return opened(EnvelopeKind.VIEW, data, FederationView)


def read_job(path: Path) -> JobNeeds:
    """What a Pod, Job, Deployment, StatefulSet or ReplicaSet requests. Raises `InvalidInput`."""
    try:
        document = parse(path.read_bytes(), str(path))
    except OSError as error:
        raise InvalidInput("FILE", str(path), "a readable file", error.strerror or "") from None
    spec = _mapping(_mapping(document, str(path)).get("spec"), f"{path}: spec")
    template = spec.get("template")
    pod = spec
    if template is not None:
        pod = _mapping(_mapping(template, f"{path}: spec.template").get("spec"), f"{path}: spec.template.spec")
    if not pod.get("containers"):
        raise InvalidInput(f"{path}: containers", "", "a Pod, or a Job or another kind with a pod template")
    wrong: list[str] = []
    try:
        requests = read_requests(msgspec.convert(pod, PodSpec), PodStatus(), ReadAttempt(wrong))
    except msgspec.ValidationError as error:
        raise InvalidInput(f"{path}: pod", str(error)[:200], "a pod's spec") from error
    if wrong:
        raise InvalidInput(f"{path}: requests", wrong[0], "amounts that can be read")
    lent = lent_of(requests)
    count, whole = _count(path, spec) if template is not None else 1, vector_of(requests)
    return JobNeeds(lent, count, True, whole) if any(lent) else JobNeeds(whole, count)


def _count(path: Path, spec: Mapping[str, object]) -> int:
    """Of a Job what runs at once: `parallelism`, never more than `completions`."""
    counts = {}
    for name in _COUNTS:
        value = spec.get(name)
        if value is None:
            continue
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MAX_PODS:
            raise InvalidInput(f"{path}: spec.{name}", str(value)[:40], f"0 to {_MAX_PODS}")
        counts[name] = value
    if "replicas" in counts:
        return counts["replicas"]
    return min(counts.get("parallelism", 1), counts.get("completions", MAX_AMOUNT))


def _mapping(value: object, where: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise InvalidInput(where, "nothing" if value is None else type(value).__name__, "an object")
    return value
