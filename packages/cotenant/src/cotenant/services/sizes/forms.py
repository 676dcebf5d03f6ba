"""Recommendations as documents that a person applies or commits: a merge of a template, a command, or a VPA object.

Every document has its reason as comments, so that a review sees why an amount is what it is. A template's container is
named by its name, as a strategic merge patch of Kubernetes (and of kustomize) has it; what is not mentioned stays.
Limits: only of workloads whose template may be changed (Deployment, StatefulSet, DaemonSet, ReplicaSet); those of other
kinds are comments. A VPA object pins requests and leaves limits, but for a Guaranteed container, whose limits it moves
with them; containers that it does not name are not its business.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from shlex import quote

import msgspec
import yaml  # type: ignore[import-untyped]

from cotenant.drivers.kube.kinds.pod.sized import written_size
from cotenant.model.printable import printable
from cotenant.model.sizes.recommendation import Recommendation
from cotenant.services.sizes.recommending import Advice

_NO_TEXT = re.compile(r"[0-9]+[eE][0-9]+|[ynYN]|0[obx][0-9a-fA-F]+")
FORMS = ("patch", "vpa", "yaml")
CHANGEABLE = ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")
_API = "apps/v1"


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]
    """Names that PyYAML takes for text and kubectl's parser for numbers or truths, such as `1e3`, are quoted."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="'" if _NO_TEXT.fullmatch(text) else None)


_Dumper.add_representer(str, _text)


def written(form: str, advice: Advice) -> str:
    """All documents. Workloads without a recommendation are a comment with the reason."""
    parts = [f"# {line}" for line in _head(advice)]
    for workload, found in _by_workload(advice).items():
        namespace, kind, name = workload.split("/", 2)
        ours = [one for one in found if one.differs]
        comments = list(_comments(found, advice.currency))
        if not ours or kind not in CHANGEABLE:
            if ours:
                comments.append(f"not written: the template of a {kind} cannot be changed")
            parts += ["", f"# {workload}", *(f"# {printable(line)}" for line in comments)]
            continue
        if form == "patch":
            body = quote(msgspec.json.encode(_spec(ours)).decode())
            of = f"kubectl -n {quote(namespace)} patch {kind.lower()} {quote(name)}"
            command = f"{of} --type strategic -p {body}"
            parts += ["", *(f"# {printable(line)}" for line in comments), command]
            continue
        document = _vpa(namespace, kind, name, ours) if form == "vpa" else _template(namespace, kind, name, ours)
        text = yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=120).rstrip("\n")
        parts += ["---", *(f"# {printable(line)}" for line in comments), text]
    return "\n".join(parts) + "\n"


def costs(one: Recommendation, currency: str) -> Iterator[str]:
    """What the last week would have been at this size, and what a week saves."""
    week = one.week
    if week is not None and week.minutes > 0:
        yield (
            f"last week at this size, of {week.minutes:,.0f} replica-minutes: {week.squeezed:,.0f} above the CPU "
            f"request, {week.throttled:,.0f} throttled, {week.evictable:,.0f} above the memory request, "
            f"{week.killed:,.0f} out of memory"
        )
    if one.money_week is not None:
        word = "saves" if one.money_week >= 0 else "costs"
        yield f"{word} {abs(one.money_week):,.2f} {currency} a week"


def _head(advice: Advice) -> Iterator[str]:
    yield f"cotenant profile recommend: sizes at a risk of {100 * advice.risk:g} %"
    yield printable(advice.source or "nothing is known of use over time")
    yield from (printable(fault) for fault in advice.faults)


def _by_workload(advice: Advice) -> Mapping[str, list[Recommendation]]:
    found: dict[str, list[Recommendation]] = defaultdict(list)
    for one in advice.recommendations:
        found[one.workload].append(one)
    return found


def _comments(found: Sequence[Recommendation], currency: str) -> Iterator[str]:
    for one in found:
        if one.cpu is not None:
            yield f"{one.container}: CPU set by {one.cpu.set_by}, by {one.cpu.rule}"
        if one.memory is not None:
            yield f"{one.container}: memory set by {one.memory.set_by}, by {one.memory.rule}"
        yield from (f"{one.container}: {said}" for said in (*costs(one, currency), *one.why))


def _spec(found: Sequence[Recommendation]) -> dict[str, object]:
    containers = [
        {"name": one.container, "resources": written_size(one.after)} for one in found if one.after is not None
    ]
    return {"spec": {"template": {"spec": {"containers": containers}}}}


def _template(namespace: str, kind: str, name: str, found: Sequence[Recommendation]) -> dict[str, object]:
    return {
        "apiVersion": _API,
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        **_spec(found),
    }


def _is_guaranteed(one: Recommendation) -> bool:
    return one.after is not None and one.after.is_guaranteed


def _vpa(namespace: str, kind: str, name: str, found: Sequence[Recommendation]) -> dict[str, object]:
    policies = []
    for one in found:
        pinned = written_size(one.after).get("requests", {}) if one.after is not None else {}
        policies.append(
            {
                "containerName": one.container,
                "minAllowed": pinned,
                "maxAllowed": dict(pinned),
                "controlledResources": sorted(pinned),
                "controlledValues": "RequestsAndLimits" if _is_guaranteed(one) else "RequestsOnly",
            }
        )
    policies.append({"containerName": "*", "mode": "Off"})  # else a VPA finds sizes of its own for the others
    return {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "targetRef": {"apiVersion": _API, "kind": kind, "name": name},
            "updatePolicy": {"updateMode": "Initial"},
            "resourcePolicy": {"containerPolicies": policies},
        },
    }
