"""What a plan saves: the prices of the nodes that its moves empty, as a note on the kind of moves that does so.

Limits: a node saves its price once it is empty *and* removed, which the rebalancer does not do; a node is known by its
name, its labels and its shape here, so a price by provider ID is none.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from cotenant.engine.rebalancer.plan import MovePlan
from cotenant.engine.rebalancer.room import PACKING
from cotenant.model.assess.prices import PricedNode, PriceTable
from cotenant.model.cluster.node import Node
from cotenant.model.resources import CPU_NAME, MEMORY_NAME, NVIDIA_GPU

_SHOWN = 5


def with_savings(found: MovePlan, nodes: Iterable[Node], prices: PriceTable) -> MovePlan:
    """The plan with a note of what its emptied nodes cost; the same plan where it empties none."""
    emptied = dict.fromkeys(move.node for move in found.moves if move.trigger == PACKING)
    if not emptied:
        return found
    by_name = {node.name: node for node in nodes}
    costs = {name: prices.of(_priced(by_name[name])) for name in emptied if name in by_name}
    known = {name: price.per_hour for name, price in costs.items() if price is not None}
    currency = f" {prices.currency}" if prices.currency else ""
    names = ", ".join(list(known)[:_SHOWN]) + (", ..." if len(known) > _SHOWN else "")
    note = f"{sum(known.values()):.4g}{currency} an hour saved by removing {names}" if known else "no price"
    unknown = [name for name in emptied if name not in known]
    if unknown:
        shown = ", ".join(unknown[:_SHOWN]) + (", ..." if len(unknown) > _SHOWN else "")
        note = f"{note}; without a price: {shown}" if known else f"the nodes that it empties have no price: {shown}"
    kinds = tuple(replace(kind, notes=(*kind.notes, note)) if kind.trigger == PACKING else kind for kind in found.kinds)
    return replace(found, kinds=kinds)


def _priced(node: Node) -> PricedNode:
    return PricedNode(
        node.name,
        node.allocatable.get(CPU_NAME),
        node.allocatable.get(MEMORY_NAME) >> 20,
        node.allocatable.get(NVIDIA_GPU),
        dict(node.labels),
    )
