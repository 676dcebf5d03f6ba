"""Kinds of elastic quota: runtime of siblings and of trees, guarantees, minima that do not fit, the results of validation and
revocation, a quota's defaults, sequences of changes, and a pod's quota."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from cotenant.model.groups.quota import ROOT_QUOTA, Quota, QuotaPod
from cotenant.model.resources import CPU_NAME, NOTHING, Amounts
from cotenant.policy.quota.admission import (
    Rules,
    Violation,
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
from cotenant.policy.quota.runtime import Member, scaled_minima, share
from cotenant.policy.quota.tree import QuotaTree
from cotenant.policy.quota.usable import defaulted

Compared = Iterator[tuple[str, Any, Any]]


def named(key: str) -> str:
    return CPU_NAME if key == "cpu_m" else key


def amounts(given: Mapping[str, int] | None) -> Amounts:
    return Amounts.of({named(key): amount for key, amount in (given or {}).items()})


def quota(given: Mapping[str, Any]) -> Quota:
    return Quota(
        given["name"],
        amounts(given.get("max")),
        amounts(given.get("min")),
        ROOT_QUOTA if given.get("parent") in (None, "root") else given["parent"],
        given.get("is_parent", False),
        amounts(given.get("shared_weight", given.get("weight"))),
        given.get("allow_lend", True),
        given.get("tree_id") or "",
        given.get("is_root", False),
        given.get("allow_force_update", False),
        tuple(given.get("namespaces") or ()),
    )


def negative(given: Mapping[str, Any]) -> list[Violation]:
    """Amounts are checked as written: a quota that has a negative one is never made."""
    levels = [
        tuple((named(key), amount) for key, amount in (given.get(field) or {}).items())
        for field in ("max", "min", "shared_weight" if "shared_weight" in given else "weight")
    ]
    return check_amounts(given["name"], *levels)


def flat(case: Any) -> Compared:
    children = sorted(case.given["children"], key=lambda child: child["name"])
    runtime: dict[str, dict[str, int]] = {child["name"]: {} for child in children}
    for key, total in case.given["total"].items():
        members = [
            Member(
                child["request"].get(key, 0),
                max(child["min"].get(key, 0), child.get("guarantee", {}).get(key, 0)),
                child["weight"].get(key, 0),
                child["allow_lend"],
            )
            for child in children
        ]
        for child, amount in zip(children, share(total, members), strict=True):
            runtime[child["name"]][key] = amount
    for field in ("runtime", "exact"):
        for name, wanted in case.expect.get(field, {}).items():
            yield f"{field}.{name}", wanted, runtime[name]
    for bound, holds in (("at_least", int.__ge__), ("at_most", int.__le__)):
        for name, wanted in case.expect.get(bound, {}).items():
            for key, amount in wanted.items():
                yield f"{bound}.{name}.{key}", True, holds(runtime[name][key], amount)
    for key, wanted in case.expect.get("sum", {}).items():
        yield f"sum.{key}", wanted, sum(of[key] for of in runtime.values())


def tree(case: Any) -> Compared:
    quotas = [quota(given) for given in case.given["quotas"]]
    made = QuotaTree(quotas, amounts(case.given["total"]), scale_minima=case.given["scale_min_enabled"])
    for name, asked in case.given["self_request"].items():
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
    made = QuotaTree(quotas, NOTHING, guarantee_use=True)
    for name, used in case.given["used"].items():
        made.ask(name, amounts(used))
        made.use(name, amounts(used))
    made.validate()
    for field in ("allocated", "guaranteed"):
        for name, wanted in case.expect[field].items():
            got = {key: getattr(made.runtime_terms(name, named(key)), field) for key in wanted}
            yield f"{field}.{name}", wanted, got


def cluster_total(case: Any) -> Compared:
    given = {key: amounts(value) for key, value in case.given.items()}
    left = distributable(given["total"], given["system_used"], given["default_used"])
    yield "distributable", amounts(case.expect["distributable"]), left


def scaled_min(case: Any) -> Compared:
    children = {child["name"]: child for child in case.given["children"]}
    query = case.given["query"]
    asked = children.get(query["child"]) if query["parent"] == case.given["parent"] else None
    applies = asked is not None and asked["scalable"]
    yield "applies", case.expect["applies"], applies
    if not applies:
        yield "min", case.expect["min"], None
        return
    got = {}
    for key, total in case.given["total"].items():
        minima = [child["min"][key] for child in children.values()]
        scaled = scaled_minima(total, minima, [child["scalable"] for child in children.values()])
        got[key] = dict(zip(children, scaled, strict=True))[query["child"]]
    yield "min", case.expect["min"], got


def quota_self(case: Any) -> Compared:
    given = case.given["quota"]
    strict = tuple(named(key) for key in given.get("strict_used_keys", ()))
    used = amounts(given.get("used")).items
    violations = negative(given) or check_alone(quota(given), used, Rules(strict_used=strict))
    yield "valid", case.expect["valid"], not violations


def _family(case: Any) -> tuple[Quota, tuple[Quota, ...]]:
    others = [quota(case.given[role]) for role in ("parent", "child") if role in case.given]
    return quota(case.given["quota"]), tuple(others)


def min_sum(case: Any) -> Compared:
    yield "valid", case.expect["valid"], not check_minima(*_family(case))


def key_sets(case: Any) -> Compared:
    violations = check_keys(*_family(case), Rules(key_subset=case.given["allow_key_subset"]))
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
    if "reason" in expect:
        yield f"{where}reason", True, bool(found & _REASONS[expect["reason"]])


def defaulting(case: Any) -> Compared:
    given = case.given["quota"]
    existing = [quota(other) for other in case.given["existing"] if other["name"] != given["name"]]
    made = defaulted([quota(given), *existing])[0]
    missing = {found.rule for found in check_place(made, existing)} & {"unknown-parent"}
    yield from _verdict("", case.expect, missing)
    if not missing:
        got = {"parent": made.parent, "tree_id": made.tree_id}
        for key, value in got.items():
            yield key, case.expect[key], value
        wanted = amounts(case.expect["shared_weight"])  # all zero counts as the maximum, in upstream's scheduler
        yield "shared_weight", wanted if any(amount for _, amount in wanted) else made.maximum, made.weight


def tree_id(case: Any) -> Compared:
    mine, *others = (quota(case.given[role]) for role in ("quota", "parent", "child"))
    yield from _verdict("", case.expect, (found.rule for found in check_place(mine, others) if found.rule == "tree-id"))


def min_guarantee(case: Any) -> Compared:
    given = (*case.given["existing"], case.given["quota"])
    guaranteed = {each["name"]: amounts(each.get("guaranteed")) for each in given}
    others = [quota(each) for each in case.given["existing"]]
    found = check_guarantee(quota(case.given["quota"]), others, guaranteed)
    yield from _verdict("", case.expect, (each.rule for each in found))


def of_pod(case: Any) -> Compared:
    pod = case.given["pod"]
    found = Forest([quota(each) for each in case.given["quotas"]]).membership(
        pod["namespace"], pod["quota_label"] or ""
    )
    yield "quota", case.expect["quota"], found.quota


def sequence(case: Any) -> Compared:
    gates = case.given.get("gates", {})
    held = {each["name"]: quota(each) for each in case.given.get("existing", ())}
    guaranteed = {each["name"]: amounts(each.get("guaranteed")) for each in case.given.get("existing", ())}
    for i, (step, expect) in enumerate(zip(case.given["steps"], case.expect["steps"], strict=True)):
        pods = Forest(held.values())
        with_pods = {
            pods.membership(pod["namespace"], pod.get("quota_label") or "").quota for pod in step.get("pods", ())
        }
        if step["op"] == "delete":
            rules = [found.rule for found in check_delete(Quota(step["name"]), held.values(), with_pods)]
            if not rules and step["name"] not in held:
                rules = ["not-found"]
            if not rules:
                del held[step["name"]]
        else:
            given = step["quota"]
            rules = [found.rule for found in negative(given)]
            if not rules:
                made = quota(given)
                others = tuple(held.values())
                if step["op"] == "create" and not step.get("raw"):
                    made = defaulted([made, *(other for other in others if other.name != made.name)])[0]
                old = held.get(made.name) if step["op"] == "update" else None
                strict = tuple(named(key) for key in given.get("strict_used_keys", ()))
                settings = Rules(key_subset=gates.get("update_resource_keys", False), strict_used=strict)
                used = amounts(given.get("used")).items
                rules = [found.rule for found in check(made, others, old, with_pods, used, settings)]
                if gates.get("guarantee_usage"):
                    now = guaranteed | {made.name: amounts(given.get("guaranteed"))}
                    rules += [found.rule for found in check_guarantee(made, others, now)]
            if not rules:
                held[made.name] = made
        yield from _verdict(f"steps[{i}].", expect, rules)


def revocation(case: Any) -> Compared:
    pods = [QuotaPod(pod["name"], amounts(pod["request"]), pod["priority"]) for pod in case.given["assigned_pods"]]
    runtime = tuple((named(key), amount) for key, amount in case.given["runtime"].items())
    gone = revoke(pods, runtime)
    if "revoked_in_order" in case.expect:
        yield "revoked_in_order", case.expect["revoked_in_order"], [pod.uid for pod in gone]
    if "revoked_count" in case.expect:
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
