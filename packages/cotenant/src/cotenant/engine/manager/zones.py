"""Batch amounts of a node's NUMA zones: when they are written, and what they are.

A scheduler that assigns batch pods to NUMA nodes needs what each of them lends, and the zones must agree with the node.
Under upstream's policies each zone is computed by the same formula from its own size and its pods; under `peak` and
`predicted`, which predict the whole node, the node's amount is divided in proportion to what services leave unused in
each zone. Normalization applies to zones too. They are withdrawn with the node's amounts (upstream leaves them stale),
stay where a tier failed, and are written when they differ by more than the strategy's threshold, as amounts of nodes
are.
Limits: batch amounts only, as upstream; hysteresis and third parties' allocations are the node's.
Source: Koordinator, pkg/slo-controller/noderesource/plugins/batchresource (calculateOnNUMALevel,
prepareForNodeResourceTopology).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal

from cotenant.engine.manager.record import Computed, ZoneAmounts
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.zones import NodeZones
from cotenant.policy.overcommit.amplification import normalization_ratio
from cotenant.policy.overcommit.batch import BATCH_CPU, BATCH_MEMORY, BatchRules, zone_amounts
from cotenant.policy.overcommit.facts import ActivePod, Amount, NodeFacts, Policy
from cotenant.policy.overcommit.strategy import DEFAULTS, batch_rules, merge
from cotenant.policy.overcommit.writing import BATCH, Adjustments, adjusted

SHARE_TERM = "to the zone's share of the node's amount"


def zones_of(facts: NodeFacts, computed: Computed, normalization: str, zones: NodeZones) -> ZoneAmounts | None:
    """Amounts of each zone; empty = none are lent, None = the zones stay as they are."""
    if computed.state in ("withdrawn", "suggested"):
        return {}
    node = {amount.resource: amount for amount in computed.amounts if amount.resource in BATCH}
    if len(node) < len(BATCH) or computed.view is None or not zones.zones:
        return None
    rules = batch_rules(merge(DEFAULTS, computed.view.strategy))
    places = {zone.number: place for place, zone in enumerate(zones.zones)}
    own = replace(
        facts,
        zones=tuple(zone.size for zone in zones.zones),
        pods=tuple(_placed(pod, places) for pod in facts.pods),
    )
    by = Adjustments(_ratio(normalization))
    by_formula = [tuple(adjusted(entry, by) for entry in pair) for pair in zone_amounts(own, _plain(rules))]
    columns = []
    for resource, formula in zip((BATCH_CPU, BATCH_MEMORY), zip(*by_formula, strict=True), strict=True):
        if not Policy(node[resource].policy).is_at_risk:
            columns.append(formula)
        else:
            unused = [pair[BATCH.index(resource)] for pair in zone_amounts(own, BatchRules(100, 100))]
            columns.append(_shares(node[resource], tuple(unused)))
    return {zone.name: amounts for zone, amounts in zip(zones.zones, zip(*columns, strict=True), strict=True)}


def standing(zones: NodeZones) -> dict[str, int]:
    """What is lent in each zone now, by zone and short name, as one table."""
    return {f"{zone.name}/{name}": amount for zone in zones.zones for name, amount in zone.lent.items()}


def changes(zones: NodeZones, wanted: ZoneAmounts) -> dict[str, dict[str, int | None]]:
    """What differs from what stands, by zone and short name."""
    found: dict[str, dict[str, int | None]] = {}
    for zone in zones.zones:
        new: dict[str, int | None] = dict.fromkeys(BATCH)
        new.update({amount.resource: amount.value for amount in wanted.get(zone.name, ())})
        differing = {name: amount for name, amount in new.items() if zone.lent.get(name) != amount}
        if differing:
            found[zone.name] = differing
    return found


def annotation_of_zones(wanted: ZoneAmounts) -> str | None:
    """The annotation of the NodeResourceTopology; None where nothing is lent."""
    if not wanted:
        return None
    found = {
        zone: {
            amount.resource: {
                "policy": amount.policy,
                "value": amount.value,
                "terms": [[term.name, term.amount] for term in amount.terms],
            }
            for amount in amounts
        }
        for zone, amounts in wanted.items()
    }
    return json.dumps({"zones": found}, separators=(",", ":"))


def _shares(whole_node: Amount, unused: tuple[Amount, ...]) -> tuple[Amount, ...]:
    """The node's amount divided in proportion to what is unused in each zone, rounded down; evenly where nothing is."""
    weights = [amount.value for amount in unused]
    whole = sum(weights)
    total = whole_node.value
    parts = [total * weight // whole if whole else total // len(weights) for weight in weights]
    return tuple(
        replace(amount, policy=whole_node.policy).then(SHARE_TERM, part)
        for amount, part in zip(unused, parts, strict=True)
    )


def _placed(pod: ActivePod, places: Mapping[int, int]) -> ActivePod:
    """The pod with places in the list of zones for numbers of NUMA nodes; those that are not known are left out."""
    if pod.zones is None:
        return pod
    return replace(pod, zones=tuple(places[number] for number in pod.zones if number in places))


def _plain(rules: BatchRules) -> BatchRules:
    def plain(policy: Policy) -> Policy:
        return Policy.USAGE if policy.is_at_risk else policy

    return replace(rules, cpu_policy=plain(rules.cpu_policy), memory_policy=plain(rules.memory_policy))


def _ratio(text: str) -> Decimal | None:
    """The ratio as annotated; None where there is none that can be read: then the node's tier has failed, and zones
    stay too.
    """
    try:
        return normalization_ratio(text) if text else None
    except InvalidInput:
        return None
