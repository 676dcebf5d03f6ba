"""Output of `cotenant explain node`: each amount as a sum, the pods that hold it and those whose idle requests it
is; those of its NUMA zones and its GPU resources likewise; or the whole answer as JSON.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from cotenant.cli import tables
from cotenant.model.counted import counted
from cotenant.model.quantities import format_bytes
from cotenant.model.resources import Unit, kubernetes_name, unit_of
from cotenant.policy.overcommit.nothing_lent import why_nothing
from cotenant.services.offers.explaining import AmountView, NodeOfferView, explain_node
from cotenant.services.offers.holding import LenderView

_SHOWN = 8  # pods of a list


def node(
    name: str, kubeconfig: Path | None, context: str, namespace: str, config: str, seal: Path | None, as_json: bool
) -> int:
    """What a node lends, and why so much."""
    view = explain_node(kubeconfig, context, name, namespace, config, seal)
    if as_json:
        print(msgspec.json.encode(view).decode())
        return 0
    for line in lines(view):
        tables.print_folded(line)
    return 0


def lines(view: NodeOfferView) -> list[str]:
    """The answer as text."""
    age = "never measured" if view.metric_age_seconds is None else f"measured {view.metric_age_seconds:.0f} s ago"
    by = f", strategy: {view.strategy}" if view.strategy else ""
    found = [f"node {view.node}: {view.state}{f' ({view.reason})' if view.reason else ''}; {age}{by}"]
    if view.config_error:
        found.append(f"The configuration is not in force: {view.config_error}")
    found += [f"ignored: {name}" for name in view.ignored]
    for amount in view.amounts:
        found += ["", *_amount(amount)]
    for zone in view.zones:
        found += ["", f"of this in NUMA zone {zone.zone}"]
        for amount in zone.amounts:
            found += [f"  {line}" for line in _amount(amount, holders=False)]
    if view.lenders:
        found += ["", *_lenders(view.lenders)]
    if not view.amounts:
        found.append("It offers no batch and mid resources.")
    for amount in view.gpus:
        found += ["", *_amount(amount)]
    return found


def _lenders(lenders: tuple[LenderView, ...]) -> list[str]:
    """The pods whose idle requests are lent."""
    found = ["prod and mid pods that use less than they request"]
    found += [
        f"  {lender.pod}  CPU {lender.used_cpu}m of {lender.requested_cpu}m, "
        f"memory {format_bytes(lender.used_memory)} of {format_bytes(lender.requested_memory)}"
        for lender in lenders[:_SHOWN]
    ]
    return [*found, f"  and {len(lenders) - _SHOWN} more"] if len(lenders) > _SHOWN else found


def _holders(amount: AmountView, text: Callable[[int], str]) -> list[str]:
    """The pods that hold it."""
    held = sum(holder.amount for holder in amount.holders)
    if not held:
        return ["  no pod on the node holds any"] if amount.on_node else []
    pods = counted(len(amount.holders), "pod")
    found = [f"  {text(held)} held by {pods}"]
    width = max(len(text(holder.amount)) for holder in amount.holders[:_SHOWN])
    found += [f"    {text(holder.amount):>{width}}  {holder.pod}" for holder in amount.holders[:_SHOWN]]
    return [*found, f"    and {len(amount.holders) - _SHOWN} more"] if len(amount.holders) > _SHOWN else found


def _amount(amount: AmountView, holders: bool = True) -> list[str]:
    unit = unit_of(kubernetes_name(amount.resource))

    def text(value: int) -> str:
        if unit is Unit.MILLI_CPU:
            return f"{value}m"
        if unit is not Unit.BYTES:
            return str(value)
        return f"-{format_bytes(-value)}" if value < 0 else format_bytes(value)

    on_node = "not offered" if amount.on_node is None else text(amount.on_node)
    found = [f"{amount.resource} {on_node}, by {amount.policy}" if amount.policy else f"{amount.resource} {on_node}"]
    width = max((len(text(term.amount)) for term in amount.terms), default=0)
    found += [f"  {text(term.amount):>{width}}  {term.name}" for term in amount.terms]
    if amount.terms:
        total = sum(term.amount for term in amount.terms)
        found.append(f"  {text(total):>{width}}  = {amount.resource}")
        if why := why_nothing(total, [(term.name, term.amount) for term in amount.terms], text):
            found.append(f"  {why}")
        if amount.written is None:
            found.append("  computed now; nothing was written")
    if amount.written is not None and amount.on_node != amount.written:
        found.append("  another writer has changed it since")
    if amount.computed_now is not None and amount.written is not None and amount.computed_now != amount.written:
        found.append(
            f"  it would be {text(amount.computed_now)} now: not written yet"
            if unit is Unit.PERCENT
            else f"  by the formula it would be {text(amount.computed_now)} now: the difference is too small to be "
            "written"
        )
    return [*found, *_holders(amount, text)] if holders else found
