"""Consolidation on the halves of the traces that nothing was chosen on: which nodes one would have emptied by the first
half of a history, and whether the second half still fitted (`python -m bench.back_test`, second table).

None of the traces has both nodes and the pods on them with their use, so each is brought into that form:

`alibaba2018`: the reported machines, eight days; each machine's use is that of eight pods alike. `google2019`: the cell
as 20 nodes alike with ten pods alike each, so that emptying is of the cell's course alone. `azure-vm`: the reported
spans of twelve days, virtual machines as they came and went, on the emptiest of ten hosts (twice as many as in the
first table, where hardly a node is free): a machine uses all that it requests, and growth is what arrives. In the
place of requests, which the other two do not know, stands the highest use up to then.

`the plan` fits by requests and by predicted use, of nodes of any size where requests are not known; `by use` by
predicted use alone. Rivals have their published settings, and the ones chosen for sizes on the other half. `nodes`:
emptied, of all; `squeezed`, `before`: percent of pods' time on a node with more use than it has, with the moves and
without; `low`, `high`: 95 % by whole days; `unplaced`: pods that came later and found no place; `peak`: the fullest
node that took pods in, percent. `kept`: at most 1 % more squeezed, and at
most 1 % of those that came later without a place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cotenant.model.arrays import Float, Int
from cotenant.policy.assess.emptied_judging import EmptyingOutcome
from cotenant.policy.assess.emptying import PLAN, RIVALS, UNDERUSED_SHARE, EmptyingRule, try_emptying
from cotenant.policy.assess.predictor import Past, Predictor
from cotenant.policy.assess.recorded_pods import RecordedPods, RecordedUse
from cotenant.policy.assess.size_blend import SizeBlend

CELL_NODES, CELL_PODS = 20, 10
MACHINE_PODS = 8
VM_HOSTS = 10
RISK = 0.01


def alike(reported: Past, nodes: int, pods: int) -> RecordedPods:
    """Every series as `nodes` nodes alike, each of as many pods alike; of their use alone, not its size, is known."""
    steps = reported.use.shape[1]
    of_nodes = np.repeat(reported.use, nodes, axis=0)
    of_pods = np.repeat(of_nodes / np.float32(pods), pods, axis=0)
    highest = np.fmax.reduce(of_pods[:, : steps // 2], axis=1).astype(np.float64)
    use = RecordedUse(of_nodes, of_pods, highest, np.repeat(reported.capacity, nodes))
    on = np.repeat(np.arange(len(of_nodes)), pods)
    return RecordedPods((use,), on, np.ones(len(on), np.bool_), reported.step_s)


def machines(
    on: Int, arrival_s: Float, departure_s: Float, cores_m: Float, hosts: int, span: range, step_s: float, size: float
) -> RecordedPods:
    """Virtual machines that are there within the steps of `span`, on hosts of this size."""
    first = np.clip(np.round(arrival_s / step_s).astype(np.int64) - span.start, 0, len(span))
    last = np.clip(np.round(departure_s / step_s).astype(np.int64) - span.start, 0, len(span))
    kept = np.flatnonzero((on >= 0) & (last > first))
    use = np.full((len(kept), len(span)), np.nan, np.float32)
    total = np.zeros((hosts, len(span)), np.float32)
    for row, at in enumerate(kept.tolist()):
        use[row, first[at] : last[at]] = cores_m[at]
        total[on[at], first[at] : last[at]] += np.float32(cores_m[at])
    of = RecordedUse(total, use, cores_m[kept], np.full(hosts, size))
    return RecordedPods((of,), on[kept], np.ones(len(kept), np.bool_), step_s)


def emptying_rows(
    name: str, found: Sequence[RecordedPods], tuned: Sequence[Predictor], label: Callable[[Predictor], str]
) -> list[dict[str, Any]]:
    """A row a rule, over all parts of a set."""
    at_most = UNDERUSED_SHARE if name == "azure-vm" else np.inf
    rules = [
        PLAN._replace(at_most=at_most),
        EmptyingRule("by use (ours)", False, SizeBlend()),
        *RIVALS,
        *(EmptyingRule(f"{rule.name}, {label(rule)}", False, rule) for rule in tuned),
    ]
    tried = [try_emptying(one, rules, RISK) for one in found]
    nodes = sum(one.nodes for one in found)
    return [_row(name, nodes, [outcomes[at] for outcomes in tried]) for at in range(len(rules))]


def _row(name: str, nodes: int, parts: Sequence[EmptyingOutcome]) -> dict[str, Any]:
    steps = sum(one.steps for one in parts)
    squeezed = 100 * sum(one.hits for one in parts) / steps
    before = sum(one.before_pct * one.steps for one in parts) / steps
    late, unplaced = sum(one.late for one in parts), sum(one.unplaced for one in parts)
    peak = float(np.fmax.reduce([one.peak_pct for one in parts]))
    low, high = _interval(parts)
    return {
        "set": name,
        "rule": parts[0].rule,
        "nodes": f"{sum(len(one.nodes) for one in parts)} of {nodes}",
        "squeezed": round(squeezed, 2),
        "low": "" if np.isnan(low) else round(low, 2),
        "high": "" if np.isnan(high) else round(high, 2),
        "before": round(before, 2),
        "unplaced": f"{unplaced} of {late}",
        "peak": "" if np.isnan(peak) else round(peak),
        "kept": "yes" if squeezed - before <= 100 * RISK and unplaced <= RISK * late else "no",
    }


def _interval(parts: Sequence[EmptyingOutcome]) -> tuple[float, float]:
    """Of one history its own; of several, which are unlike one another, by their spread."""
    if len(parts) == 1:
        return parts[0].low_pct, parts[0].high_pct
    shares = np.array([100 * one.hits / one.steps for one in parts if one.steps])
    if len(shares) < 2 or not shares.any():
        return np.nan, np.nan
    reach = 1.96 * float(shares.std(ddof=1)) / len(shares) ** 0.5
    return max(0.0, float(shares.mean()) - reach), float(shares.mean()) + reach
