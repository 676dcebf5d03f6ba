"""Pods whose activity follows a service's trouble and does not cause it, so that it must not hide who does.

Other services that suffer at the same time use more because they suffer. The agent and its keeper use more because
there is trouble: they look more often, and write. Who they are is known from the kernel, not from names or labels. Both
would come first where they rise with the trouble; so they are left out, the agent's own pods unless they use so much
CPU that they may well be the cause.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from cotenant.policy.interference.attribution.activity import mean
from cotenant.policy.interference.attribution.cards import renamed
from cotenant.policy.interference.attribution.evidence import Split, split
from cotenant.policy.interference.attribution.samples import AttributionSample, NodeSamples
from cotenant.policy.interference.attribution.settings import AttributionSettings, EvidenceSignal
from cotenant.policy.interference.series import BlameSample


def bystanders(history: NodeSamples, parts: Split, settings: AttributionSettings) -> frozenset[str]:
    """The pods whose activity explains nothing of the trouble, by uid."""
    return fellow_sufferers(history, parts.uid, settings) | _our_own(parts, settings)


def without_activity(history: NodeSamples, uids: frozenset[str]) -> NodeSamples:
    """The history in which these pods used nothing, and whoever waited for them waited for work outside the pods."""
    return NodeSamples(tuple(_without(sample, uids) for sample in history.samples), history.usual)


def fellow_sufferers(history: NodeSamples, uid: str, settings: AttributionSettings) -> frozenset[str]:
    """Other services in trouble whose requests, or instructions, did not grow."""
    last = history.samples[-1].services if history.samples else {}
    found = []
    for other in last:
        parts = split(history, other, settings) if other != uid and history.in_trouble(other, settings) else None
        if parts is None or any(
            sample.rate_milli is None and EvidenceSignal.CPI not in sample.levels for _, sample in parts.pairs
        ):
            continue
        growth = parts.growth_ppm()
        if growth is not None and growth < settings.own_growth_ppm:
            found.append(other)
    return frozenset(found)


def _our_own(parts: Split, settings: AttributionSettings) -> frozenset[str]:
    """The agent's own pods, where they used little while the service was in trouble."""
    ours = {uid for sample, _ in parts.bad for uid in sample.ours} - {parts.uid}
    used_m = {uid: mean([float(sample.activity.get(uid, 0)) for sample, _ in parts.bad]) for uid in ours}
    return frozenset(uid for uid, cpu_m in used_m.items() if cpu_m < settings.min_own_cpu_m)


def _without(sample: AttributionSample, uids: frozenset[str]) -> AttributionSample:
    def others(amounts: Mapping[str, int]) -> dict[str, int]:
        return {uid: amount for uid, amount in amounts.items() if uid not in uids}

    blame = sample.blame
    if blame is not None and sample.ours:
        blame = {victim: _as_outside(waited, uids & sample.ours) for victim, waited in blame.items()}
    cards = renamed(sample.cards, lambda uid: None if uid in uids else uid)
    return replace(sample, activity=others(sample.activity), disk=others(sample.disk), blame=blame, cards=cards)


def _as_outside(waited: BlameSample, uids: frozenset[str]) -> BlameSample:
    moved_us = sum(ran_us for uid, ran_us in waited.by_pod if uid in uids)
    rest = tuple((uid, ran_us) for uid, ran_us in waited.by_pod if uid not in uids)
    return replace(waited, by_pod=rest, by_others=waited.by_others + moved_us)
