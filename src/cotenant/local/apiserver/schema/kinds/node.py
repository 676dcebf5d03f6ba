"""Node: defaults and rules. Source: Kubernetes API reference v1 Node (what is allocatable is the capacity, where nobody says otherwise)."""

from __future__ import annotations

from cotenant.local.apiserver.contract import Cause, Manifest
from cotenant.local.apiserver.schema.kinds import words
from cotenant.local.apiserver.schema.kinds.placement import EFFECTS


def default_node(obj: Manifest) -> None:
    """Fill a Node in."""
    status = obj.get("status")
    if status and "capacity" in status and "allocatable" not in status:
        status["allocatable"] = dict(status["capacity"])


def check_node(obj: Manifest, old: Manifest | None) -> list[Cause]:
    """What is wrong with a Node."""
    causes: list[Cause] = []
    seen: set[tuple[str, str]] = set()
    spec = obj.get("spec", {})
    for index, taint in enumerate(spec.get("taints", ())):
        here = f"spec.taints[{index}]"
        key, effect = taint.get("key", ""), taint.get("effect", "")
        if why := words.key_problem(key):
            causes.append(words.wrong(f"{here}.key", key, why))
        if why := words.value_problem(taint.get("value", "")):
            causes.append(words.wrong(f"{here}.value", taint["value"], why))
        words.one_of(effect, EFFECTS, f"{here}.effect", causes)
        if (key, effect) in seen:
            cause = words.duplicate(here, taint)
            causes.append(Cause(cause.reason, f"{cause.message}: taints must be unique by key and effect pair", here))
        seen.add((key, effect))
    status = obj.get("status", {})
    for key in ("capacity", "allocatable"):
        for name, amount in status.get(key, {}).items():
            if words.nano(amount) < 0:
                causes.append(words.wrong(f"status.{key}[{name}]", amount, words.NOT_NEGATIVE))
    return causes
