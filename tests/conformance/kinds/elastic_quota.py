"""Kinds of elastic quota: runtime of siblings and of trees, guarantees, minima that do not fit, and the results of validation and revocation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cotenant.model.groups.quota import ROOT_QUOTA, Quota, QuotaPod
from cotenant.model.resources import CPU_NAME, NOTHING, Amounts
from cotenant.policy.quota.admission import Rules, check_alone, check_keys, check_minima
from cotenant.policy.quota.forest import distributable
from cotenant.policy.quota.revocation import revoke
from cotenant.policy.quota.runtime import Member, scaled_minima, share
from cotenant.policy.quota.tree import QuotaTree

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
        amounts(given.get("weight")),
        given.get("allow_lend", True),
    )


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
    violations = check_alone(quota(given), amounts(given.get("used")).items, Rules(strict_used=strict))
    yield "valid", case.expect["valid"], not violations


def _family(case: Any) -> tuple[Quota, tuple[Quota, ...]]:
    others = [quota(case.given[role]) for role in ("parent", "child") if role in case.given]
    return quota(case.given["quota"]), tuple(others)


def min_sum(case: Any) -> Compared:
    yield "valid", case.expect["valid"], not check_minima(*_family(case))


def key_sets(case: Any) -> Compared:
    violations = check_keys(*_family(case), Rules(key_subset=case.given["allow_key_subset"]))
    yield "valid", case.expect["valid"], not violations


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
}
