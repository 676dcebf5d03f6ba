"""Random rules about other pods, and about nodes, as pods' specs have them.

kube-scheduler 1.36 matches a pod that is to be placed against the pods of every namespace where a namespaceSelector of
its terms selects what has no labels (NotIn, DoesNotExist): such selectors are drawn for residents only.
"""

from __future__ import annotations

from tests.kube.feasible.vocabulary import APPS, HOST, TIERS, ZONE, Draw, Manifest

_TOPOLOGIES = (HOST, HOST, ZONE, ZONE, "disk", "missing")

_NAMESPACES: tuple[Manifest, ...] = (
    {},
    {"matchLabels": {"team": "red"}},
    {"matchExpressions": [{"key": "team", "operator": "In", "values": ["red", "blue"]}]},
    {"matchExpressions": [{"key": "team", "operator": "Exists"}], "matchLabels": {"team": "blue"}},
)
_UNLABELLED: tuple[Manifest, ...] = (
    {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]},
    {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["red"]}]},
)


def pod_terms(draw: Draw, world_name: str, *, is_placed: bool) -> list[Manifest]:
    """Required terms of affinity or anti-affinity. `is_placed`: of a pod that is on a node."""
    return [_pod_term(draw, world_name, is_placed) for _ in range(1 + int(draw.chance(0.25)))]


def _pod_term(draw: Draw, world_name: str, is_placed: bool) -> Manifest:
    term: Manifest = {"topologyKey": draw.choice(_TOPOLOGIES)}
    if draw.chance(0.92):
        term["labelSelector"] = _selector(draw)
        if draw.chance(0.2):
            term["matchLabelKeys"] = ["revision"]
        elif draw.chance(0.1):
            term["mismatchLabelKeys"] = ["revision"]
    if draw.chance(0.3):
        term["namespaces"] = [f"{world_name}-s{draw.randint(0, 2)}"]
    if draw.chance(0.35):
        term["namespaceSelector"] = draw.choice(_NAMESPACES + _UNLABELLED if is_placed else _NAMESPACES)
    return term


def _selector(draw: Draw) -> Manifest:
    drawn = draw.random()
    if drawn < 0.08:
        return {}
    if drawn < 0.5:
        return {"matchLabels": {"app": draw.choice(APPS)}}
    operator = draw.choice(("In", "NotIn", "Exists", "DoesNotExist"))
    key, values = draw.choice((("app", APPS), ("tier", TIERS)))
    expression: Manifest = {"key": key, "operator": operator}
    if operator in ("In", "NotIn"):
        expression["values"] = draw.sample(values, draw.randint(1, 2))
    found: Manifest = {"matchExpressions": [expression]}
    if draw.chance(0.2):
        found["matchLabels"] = {"tier": draw.choice(TIERS)}
    return found


def spread(draw: Draw) -> list[Manifest]:
    """Topology spread constraints."""
    found: dict[tuple[str, str], Manifest] = {}
    for _ in range(1 + int(draw.chance(0.35))):
        constraint: Manifest = {
            "maxSkew": draw.randint(1, 2),
            "topologyKey": draw.choice((HOST, ZONE, ZONE, "disk", "missing")),
            "whenUnsatisfiable": "DoNotSchedule" if draw.chance(0.85) else "ScheduleAnyway",
        }
        if draw.chance(0.92):
            constraint["labelSelector"] = _selector(draw)
            if draw.chance(0.25):
                constraint["matchLabelKeys"] = ["revision"]
        if constraint["whenUnsatisfiable"] == "DoNotSchedule" and draw.chance(0.3):
            constraint["minDomains"] = draw.randint(1, 5)
        for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if draw.chance(0.4):
                constraint[policy] = draw.choice(("Honor", "Ignore"))
        found[constraint["topologyKey"], constraint["whenUnsatisfiable"]] = constraint
    return list(found.values())


def node_affinity(draw: Draw, nodes: tuple[str, ...]) -> Manifest:
    """Required node affinity of some terms, any of them empty sometimes."""
    terms = [_node_term(draw, nodes) for _ in range(draw.randint(1, 3))]
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}


def _node_term(draw: Draw, nodes: tuple[str, ...]) -> Manifest:
    term: Manifest = {}
    if draw.chance(0.85):
        term["matchExpressions"] = [_expression(draw) for _ in range(1 + int(draw.chance(0.3)))]
    if draw.chance(0.2):
        names = [draw.choice((*nodes, "nowhere"))]
        term["matchFields"] = [{"key": "metadata.name", "operator": draw.choice(("In", "NotIn")), "values": names}]
    return term


def _expression(draw: Draw) -> Manifest:
    operator = draw.choice(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
    if operator in ("Gt", "Lt"):
        return {
            "key": draw.choice(("gen", "gen", "disk")),
            "operator": operator,
            "values": [draw.choice(("0", "1", "5"))],
        }
    key, values = draw.choice((("disk", ("fast", "slow")), (ZONE, ("z0", "z1", "z2")), ("gen", ("1", "2", "x3", ""))))
    expression: Manifest = {"key": key, "operator": operator}
    if operator in ("In", "NotIn"):
        expression["values"] = draw.sample(values, draw.randint(1, 2))
    return expression


def tolerations(draw: Draw) -> list[Manifest]:
    """Tolerations with every operator."""
    return [_toleration(draw) for _ in range(draw.randint(1, 3))]


def _toleration(draw: Draw) -> Manifest:
    found: Manifest = {}
    if effect := draw.choice(("", "NoSchedule", "NoExecute", "PreferNoSchedule")):
        found["effect"] = effect
        if effect == "NoExecute" and draw.chance(0.3):
            found["tolerationSeconds"] = 60
    operator = draw.choice(("", "Equal", "Exists", "Gt", "Lt"))
    if operator:
        found["operator"] = operator
    if operator == "Exists" and draw.chance(0.3):
        return found  # tolerates every key
    found["key"] = draw.choice(("dedicated", "level", "node.kubernetes.io/unschedulable"))
    if operator in ("Gt", "Lt"):
        found["value"] = draw.choice(("5", "7", "-1"))
    elif operator != "Exists":
        found["value"] = draw.choice(("", "db", "5"))
    return found
