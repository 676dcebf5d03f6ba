"""Use over time after a what-if: pods take their use with them.

A node's use is what it was, less what left it, plus what came. A new pod uses what the pod used that it is a copy of.
Energy of pods goes with them too; that of nodes is known of all together, idle or not, so it is not known of others.
Limits: use does not grow where there is more room; a pod whose use is unknown takes nothing with it. Cards' use is of
cards that a pod may not have got again: it is not known either.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np

from cotenant.model.assess.history import AssessedHistory, ClusterHistory, Float32, PodHistory
from cotenant.model.assess.meters import CardUses, Meters

NOT_KNOWN = "it was measured of the cluster as it is"
CANNOT_MOVE = "use of pods and of nodes is known at different times: nodes keep theirs"


def moved(
    history: ClusterHistory,
    before: Mapping[str, str],
    after: Mapping[str, str],
    source: Mapping[str, str],
    nodes: Collection[str],
) -> ClusterHistory:
    """`before`, `after`: node of each running pod by namespace/name; `source`: of new pods, whose copies they are;
    `nodes`: those that are there afterwards.
    """
    pods = history.pods
    row = {name: at for at, name in enumerate(pods.use.names)}
    gone = {key for key in before if key not in after}
    meters = _metered(history.meters, gone, after, source)
    keys = [key for key in row if key not in gone]
    new = [key for key in after if key not in row and source.get(key) in row]
    rows = np.array([row[key] for key in keys] + [row[source[key]] for key in new], np.int64)
    names = (*keys, *new)
    where = tuple(after.get(key) or pods.node[at] for key, at in zip(names, rows.tolist(), strict=True))
    of_pods = PodHistory(
        replace(pods.use, names=names, cpu_m=pods.use.cpu_m[rows], memory_mib=pods.use.memory_mib[rows]),
        where,
        tuple(pods.workload[at] for at in rows.tolist()),
        pods.cpu_request_m[rows],
        pods.memory_request_mib[rows],
    )
    if (pods.use.steps, pods.use.start_s) != (history.nodes.steps, history.nodes.start_s) and len(row):
        kept = [at for at, name in enumerate(history.nodes.names) if name in nodes]
        faults = (*history.faults, CANNOT_MOVE)
        return ClusterHistory(of_pods, history.nodes.of_rows(np.array(kept, np.int64)), faults, meters)
    shifts = []  # row of a pod, and the node that it leaves or comes to
    for key in {*before, *after}:
        left, came = before.get(key, ""), after.get(key, "")
        at = row.get(key, row.get(source.get(key, ""), -1))
        if left != came and at >= 0:
            shifts += [(at, left, -1.0)] * bool(left) + [(at, came, 1.0)] * bool(came)
    shifted = _shifted(history.nodes, pods.use, sorted(shifts), nodes)
    return ClusterHistory(of_pods, shifted, history.faults, meters)


def _metered(was: Meters, gone: Collection[str], after: Mapping[str, str], source: Mapping[str, str]) -> Meters:
    """Joules of the pods that are there afterwards; a new one spends what the pod does that it is a copy of."""
    if not was.energy.pods:
        return Meters(CardUses(why=NOT_KNOWN), replace(was.energy, nodes=(), why=was.energy.why or NOT_KNOWN))
    of = dict(was.energy.pods)
    kept = [(name, joules) for name, joules in was.energy.pods if name not in gone]
    new = [(name, of[source[name]]) for name in after if name not in of and source.get(name) in of]
    return Meters(CardUses(why=NOT_KNOWN), replace(was.energy, pods=(*kept, *new), nodes=(), why=NOT_KNOWN))


def _shifted(
    was: AssessedHistory, pods: AssessedHistory, shifts: list[tuple[int, str, float]], nodes: Collection[str]
) -> AssessedHistory:
    kept = [at for at, name in enumerate(was.names) if name in nodes]
    known = set(was.names)
    added = sorted({node for _, node, sign in shifts if sign > 0 and node not in known and node in nodes})
    if not was.names:
        added = []  # nothing is known of any node
    names = (*(was.names[at] for at in kept), *added)
    at_node = {name: at for at, name in enumerate(names)}
    zeros = np.zeros((len(added), was.steps), np.float32)
    found: list[Float32] = []
    for values, of_pods in ((was.cpu_m, pods.cpu_m), (was.memory_mib, pods.memory_mib)):
        total = np.concatenate([values[kept], zeros])
        touched = set()
        for pod, node, sign in shifts:
            at = at_node.get(node, -1)
            if at >= 0:
                total[at] += np.float32(sign) * np.nan_to_num(of_pods[pod])
                touched.add(at)
        some = sorted(touched)
        total[some] = np.maximum(total[some], np.float32(0.0))
        found.append(total)
    return replace(was, names=names, cpu_m=found[0], memory_mib=found[1])
