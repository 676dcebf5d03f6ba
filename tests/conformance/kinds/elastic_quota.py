"""Kinds of elastic quota: runtime of siblings and of trees, guarantees, minima that do not fit, the results of
validation and revocation, a quota's defaults, sequences of changes, and a pod's quota.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tests.conformance.reading import Unreadable, no_matter, one_of, switches

from cotenant.model.groups.quota import ROOT_QUOTA, Quota, QuotaPod
from cotenant.model.resources import CPU_NAME, Amounts
from cotenant.policy.quota.admission import (
    QuotaRules,
    QuotaViolation,
    check,
    check_alone,
    check_amounts,
    check_delete,
    check_guarantee,
    check_keys,
    check_minima,
    check_place,
)
from cotenant.policy.quota.forest import Forest, distributable
from cotenant.policy.quota.revocation import revoke
from cotenant.policy.quota.runtime import QuotaSibling, scaled_minima, share
from cotenant.policy.quota.tree import QuotaTree
from cotenant.policy.quota.usable import defaulted

Compared = Iterator[tuple[str, Any, Any]]


def named(key: str) -> str:
    return CPU_NAME if key == "cpu_m" else key


def amounts(given: Mapping[str, int] | None) -> Amounts:
    return Amounts.of({named(key): amount for key, amount in (given or {}).items() if amount is not None})


def quota(given: Mapping[str, Any]) -> Quota:
    no_matter(given, "namespace")  # a quota is named in the whole cluster
    weight = given["shared_weight"]
    return Quota(
        given["name"],
        amounts(given["max"]),
        amounts(given["min"]),
        ROOT_QUOTA if given["parent"] in (None, "", "root") else given["parent"],
        given.get("is_parent", False),
        amounts(given["weight"] if weight is None else weight),
        given.get("allow_lend", True),
        given.get("tree_id", ""),
        given.get("is_root", False),
        given.get("allow_force_update", False),
        tuple(given.get("namespaces", ())),
    )


_BESIDE_AMOUNTS = (
    *("namespace", "parent", "is_parent", "is_root", "tree_id", "allow_lend", "allow_force_update", "namespaces"),
    *("weight", "used", "strict_used_keys", "guaranteed"),
)


def negative(given: Mapping[str, Any]) -> list[QuotaViolation]:
    """Amounts are checked as written: a quota that has a negative one is never made."""
    levels = [
        tuple((named(key), amount) for key, amount in (given[field] or {}).items() if amount is not None)
        for field in ("max", "min", "weight" if given["shared_weight"] is None else "shared_weight")
    ]
    found = check_amounts(given["name"], *levels)
    if found:
        no_matter(given, *_BESIDE_AMOUNTS)  # the quota is refused before they are looked at
    return found


def flat(case: Any) -> Compared:
    children = sorted(case.given["children"], key=lambda child: child["name"])
    runtime: dict[str, dict[str, int]] = {child["name"]: {} for child in children}
    for child in children:
        no_matter(child, "request", "min", "guarantee", "weight")  # of a resource that the total has not
    for key, total in case.given["total"].items():
        members = [
            QuotaSibling(
                child.get("request", {}).get(key, 0),
                max(child.get("min", {}).get(key, 0), child.get("guarantee", {}).get(key, 0)),
                child.get("weight", {}).get(key, 0),
                child.get("allow_lend", True),
            )
            for child in children
        ]
        for child, amount in zip(children, share(total or 0, members), strict=True):
            runtime[child["name"]][key] = amount
    for field in ("runtime", "exact"):
        for name, wanted in case.expect.get(field, {}).items():
            yield f"{field}.{name}", wanted, {key: runtime[name][key] for key in wanted}
    for bound, holds in (("at_least", int.__ge__), ("at_most", int.__le__)):
        for name, wanted in case.expect.get(bound, {}).items():
            for key, amount in wanted.items():
                yield f"{bound}.{name}.{key}", True, holds(runtime[name][key], amount)
    for key, wanted in case.expect.get("sum", {}).items():
        yield f"sum.{key}", wanted, sum(of[key] for of in runtime.values())


def tree(case: Any) -> Compared:
    quotas = [quota(given) for given in case.given["quotas"]]
    made = QuotaTree(quotas, amounts(case.given["total"]), scale_minima=case.given.get("scale_min_enabled", True))
    for name, asked in case.given.get("self_request", {}).items():
        made.ask(name, amounts(asked))
    made.validate()
    fields = {
        "runtime": "runtime",
        "request": "request",
        "child_request": "child_request",
        "autoscaled_min": "scaled_minimum",
    }
    for expected, field in fields.items():
        for name, wanted in case.expect.get(expected, {}).items():
            got = {key: getattr(made.runtime_terms(name, named(key)), field) for key in wanted}
            yield f"{expected}.{name}", wanted, got


def guarantee(case: Any) -> Compared:
    quotas = [quota(given) for given in case.given["quotas"]]
    made = QuotaTree(quotas, amounts(case.given["total"]), guarantee_use=True)
    for name, used in case.given.get("used", {}).items():
        made.ask(name, amounts(used))
        made.use(name, amounts(used))
    made.validate()
    for field in ("allocated", "guaranteed"):
        for name, wanted in case.expect.get(field, {}).items():
            got = {key: getattr(made.runtime_terms(name, named(key)), field) for key in wanted}
            yield f"{field}.{name}", wanted, got


def cluster_total(case: Any) -> Compared:
    given = case.given
    left = distributable(*(amounts(given[key]) for key in ("total", "system_used", "default_used")))
    yield "distributable", amounts(case.expect["distributable"]), left


def scaled_min(case: Any) -> Compared:
    children = {child["name"]: child for child in case.given.get("children", ())}
    query, scalable = case.given["query"], [bool(child["scalable"]) for child in children.values()]
    asked, name = query["parent"] == case.given["parent"], query["child"]
    applies = asked and dict(zip(children, scalable, strict=True)).get(name, False)
    got: dict[str, int] = {}
    total = case.given.get("total", {})
    for child in case.given.get("children", ()):
        no_matter(child, "min", "scalable")  # of another parent, or without amounts
    for key in dict.fromkeys([*total, *(key for child in children.values() for key in child.get("min", {}))]):
        minima = [child.get("min", {}).get(key, 0) for child in children.values()]
        scaled = dict(zip(children, scaled_minima(total.get(key, 0), minima, scalable), strict=True))
        if applies:
            got[key] = scaled[name]
    yield "applies", case.expect["applies"], applies
    yield "min", case.expect["min"], got if applies else None


def quota_self(case: Any) -> Compared:
    given = case.given["quota"]
    strict = tuple(named(key) for key in given.get("strict_used_keys", ()))
    used = amounts(given.get("used")).items
    violations = negative(given) or check_alone(quota(given), used, QuotaRules(strict_used=strict))
    yield "valid", case.expect["valid"], not violations


def _family(case: Any) -> tuple[Quota, tuple[Quota, ...]]:
    others = [quota(case.given[role]) for role in ("parent", "child") if case.given[role] is not None]
    return quota(case.given["quota"]), tuple(others)


def min_sum(case: Any) -> Compared:
    yield "valid", case.expect["valid"], not check_minima(*_family(case))


def key_sets(case: Any) -> Compared:
    violations = check_keys(*_family(case), QuotaRules(key_subset=bool(case.given["allow_key_subset"])))
    yield "valid", case.expect["valid"], not violations


# what upstream's messages are about -> our rules
_REASONS = {
    "duplicate-name": {"name"},
    "namespace-taken": {"namespace"},
    "negative": {"negative"},
    "min-key-not-in-max": {"min-keys"},
    "min-above-max": {"min-over-max"},
    "used-above-max": {"max-under-used"},
    "tree-id-changed": {"tree-id"},
    "tree-id-mismatch": {"tree-id"},
    "parent-missing": {"unknown-parent"},
    "parent-not-parent": {"parent-is-leaf"},
    "max-keys": {"max-keys"},
    "min-keys": {"parent-min-keys"},
    "siblings-min-sum": {"min-sum"},
    "children-min-sum": {"min-sum"},
    "has-children": {"has-children", "is-parent", "parent-changed"},
    "has-pods": {"has-pods", "is-parent", "parent-has-pods", "parent-changed"},
    "builtin": {"built-in"},
    "not-found": {"not-found"},
    "guarantee": {"guarantee"},
    "cycle": {"cycle"},
}


def _verdict(where: str, expect: Mapping[str, Any], rules: Iterable[str]) -> Compared:
    found = set(rules)
    yield f"{where}accepted", expect["accepted"], not found
    if expect["reason"] is not None:
        if expect["reason"] not in _REASONS:
            raise Unreadable(f"the reason {expect['reason']!r} is not known")
        yield f"{where}reason", True, bool(found & _REASONS[expect["reason"]])


def defaulting(case: Any) -> Compared:
    given = case.given["quota"]
    one_of(
        case.given, "operation", ("create", "update"), "create"
    )  # both are defaulted; upstream leaves an update as it is
    known = [quota(other) for other in case.given.get("existing", ())]
    existing = [other for other in known if other.name != given["name"]]
    made = defaulted([quota(given), *existing])[0]
    missing = {found.rule for found in check_place(made, existing)} & {"unknown-parent"}
    yield from _verdict("", case.expect, missing)
    if not missing:
        yield "parent", case.expect["parent"], made.parent
        yield "tree_id", case.expect["tree_id"], made.tree_id
        wanted = amounts(case.expect["shared_weight"])  # all zero counts as the maximum, in upstream's scheduler
        yield "shared_weight", wanted if any(amount for _, amount in wanted) else made.maximum, made.weight


def tree_id(case: Any) -> Compared:
    mine, others = _family(case)
    yield from _verdict("", case.expect, (found.rule for found in check_place(mine, others) if found.rule == "tree-id"))


def min_guarantee(case: Any) -> Compared:
    existing = case.given.get("existing", ())
    guaranteed = {entry["name"]: amounts(entry["guaranteed"]) for entry in (*existing, case.given["quota"])}
    others = [quota(entry) for entry in existing]
    found = check_guarantee(quota(case.given["quota"]), others, guaranteed)
    yield from _verdict("", case.expect, (violation.rule for violation in found))


def of_pod(case: Any) -> Compared:
    pod = case.given["pod"]
    found = Forest([quota(entry) for entry in case.given.get("quotas", ())]).membership(
        pod.get("namespace", ""), pod.get("quota_label", "")
    )
    yield "quota", case.expect["quota"], found.quota


def sequence(case: Any) -> Compared:
    gates = switches(case.given["gates"], "update_resource_keys", "guarantee_usage")
    held = {entry["name"]: quota(entry) for entry in case.given.get("existing", ())}
    guaranteed = {entry["name"]: amounts(entry["guaranteed"]) for entry in case.given.get("existing", ())}
    for i, (step, expect) in enumerate(zip(case.given["steps"], case.expect["steps"], strict=True)):
        pods, with_pods = Forest(held.values()), set()
        for pod in step.get("pods", ()):
            no_matter(pod, "name")
            with_pods.add(pods.membership(pod.get("namespace", ""), pod.get("quota_label", "")).quota)
        if one_of(step, "op", ("create", "update", "delete")) == "delete":
            rules = [found.rule for found in check_delete(Quota(step["name"]), held.values(), with_pods)]
            if not rules and step["name"] not in held:
                rules = ["not-found"]
            if not rules:
                del held[step["name"]]
        else:
            given, is_raw = step["quota"], step.get("raw", False)
            rules = [found.rule for found in negative(given)]
            if not rules:
                made = quota(given)
                others = tuple(held.values())
                if step["op"] == "create" and not is_raw:
                    made = defaulted([made, *(other for other in others if other.name != made.name)])[0]
                old = held.get(made.name) if step["op"] == "update" else None
                strict = tuple(named(key) for key in given.get("strict_used_keys", ()))
                settings = QuotaRules(key_subset=gates["update_resource_keys"], strict_used=strict)
                used = amounts(given["used"]).items
                rules = [found.rule for found in check(made, others, old, with_pods, used, settings)]
                now = guaranteed | {made.name: amounts(given["guaranteed"])}
                if gates["guarantee_usage"]:
                    rules += [found.rule for found in check_guarantee(made, others, now)]
            if not rules:
                held[made.name] = made
        yield from _verdict(f"steps[{i}].", expect, rules)


def revocation(case: Any) -> Compared:
    pods = [
        QuotaPod(pod["name"], amounts(pod["request"]), pod.get("priority", 0), preemptible=pod.get("preemptible", True))
        for pod in case.given.get("assigned_pods", ())
    ]
    runtime = tuple((named(key), amount) for key, amount in case.given["runtime"].items() if amount is not None)
    gone = revoke(pods, runtime)
    yield "revoked_in_order", case.expect["revoked_in_order"], [pod.uid for pod in gone]
    yield "revoked_count", case.expect["revoked_count"], len(gone)


KINDS = {
    "flat": flat,
    "tree": tree,
    "guarantee": guarantee,
    "distributable": cluster_total,
    "scaled_min": scaled_min,
    "quota_self": quota_self,
    "min_sum": min_sum,
    "key_sets": key_sets,
    "revoke": revocation,
    "quota_defaulting": defaulting,
    "quota_tree_id": tree_id,
    "quota_min_guarantee": min_guarantee,
    "quota_of_pod": of_pod,
    "quota_sequence": sequence,
}
