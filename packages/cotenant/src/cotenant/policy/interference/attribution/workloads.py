"""The same samples with the best-effort pods of one workload as one candidate.

The pods of a Job start together and do the same, so that none of them explains more than its part and none leads; and
of a Job whose pods end and are replaced, none is there for long. Their activity and blame are added up under the
workload's name, over all pods that it had in the window.
Limits: best-effort pods only; a service is asked for by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from cotenant.policy.interference.attribution.cards import renamed
from cotenant.policy.interference.attribution.evidence import Split
from cotenant.policy.interference.attribution.held import HeldUse
from cotenant.policy.interference.attribution.samples import AttributionSample, NodeSamples
from cotenant.policy.interference.series import BlameSample


def workloads_of(history: NodeSamples) -> Mapping[str, str]:
    """The workloads with more than one pod in the window, by the uid of each."""
    known = {uid: name for sample in history.samples for uid, name in sample.workloads.items()}
    pods = Counter(known.values())
    return {uid: name for uid, name in known.items() if pods[name] > 1}


def by_workload(history: NodeSamples, workloads: Mapping[str, str]) -> NodeSamples:
    """The history with a workload's name in the place of the uids of its pods."""
    return NodeSamples(tuple(_merged(sample, workloads) for sample in history.samples), history.usual)


def max_active(parts: Split, members: frozenset[str]) -> str:
    """The uid of the pod that used most while the service was in trouble; "" where none is among `members`."""
    used: Counter[str] = Counter(dict.fromkeys(members, 0))
    for sample, _ in parts.bad:
        for uid in members:
            used[uid] += sample.free_m(uid)
    return min(used, key=lambda uid: (-used[uid], uid), default="")


def _merged(sample: AttributionSample, workloads: Mapping[str, str]) -> AttributionSample:
    activity: Counter[str] = Counter()
    for uid, amount in sample.activity.items():
        activity[workloads.get(uid, uid)] += amount
    blame = sample.blame
    if blame is not None:
        blame = {victim: _merged_blame(blame_sample, workloads) for victim, blame_sample in blame.items()}
    disk: Counter[str] = Counter()
    for uid, amount in sample.disk.items():
        disk[workloads.get(uid, uid)] += amount
    held: dict[str, HeldUse] = {}
    for uid, one in sample.held.items():
        name = workloads.get(uid, uid)
        known = held.get(name)
        held[name] = one if known is None else HeldUse(known.cpu_m + one.cpu_m, min(known.since_us, one.since_us))
    cards = renamed(sample.cards, lambda uid: workloads.get(uid, uid))
    return replace(sample, activity=activity, blame=blame, disk=disk, held=held, cards=cards)


def _merged_blame(blame: BlameSample, workloads: Mapping[str, str]) -> BlameSample:
    by_pod: Counter[str] = Counter()
    for uid, ran_us in blame.by_pod:
        by_pod[workloads.get(uid, uid)] += ran_us
    return replace(blame, by_pod=tuple(sorted(by_pod.items())))
