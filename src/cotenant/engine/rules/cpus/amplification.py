"""Nodes that promise more CPU than they have count CPUs of one's own times the ratio, on both sides.

Limits: asked of pods with CPUs of their own only; the others are judged by the plain sum.

Source: Koordinator, NodeNUMAResource (amplification).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np

from cotenant.engine.encoding.encoder import Encoder
from cotenant.engine.framework.node_rules import Rule
from cotenant.engine.rules.cpus.accounts import CpuBooks
from cotenant.model.arrays import CPU, Mask
from cotenant.policy.placement.cpus.amplification import amplified_fit
from cotenant.policy.placement.refusal import Refusal

INSUFFICIENT_AMPLIFIED = "Insufficient amplified cpu"


def short_of_amplified(plugin: str, encoder: Encoder, nodes: Mapping[str, CpuBooks], cpu_m: int) -> Iterator[Rule]:
    """Those of `nodes`, all of which have a ratio, that lack room for so many milli-CPU of a pod's own."""
    table = encoder.nodes()
    figures: dict[int, Refusal] = {}
    for name, books in nodes.items():
        row = encoder.node_rows.get(name)
        if row is None or books.told is None:
            continue
        own_m = sum(claim.cpus.bit_count() * 1000 for claim in books.claims.values())
        promised_m, requested_m = int(table.capacity[row, CPU]), int(table.requested[row, CPU])
        refusal = amplified_fit(cpu_m, True, promised_m, requested_m, own_m, books.told.ratio_ppm)
        if refusal is not None:
            figures[row] = refusal
    if figures:
        left = np.ones(len(table.ready), dtype=np.bool_)
        left[list(figures)] = False
        yield Rule(plugin, INSUFFICIENT_AMPLIFIED, left, False, partial(_least, figures))


def _least(figures: Mapping[int, Refusal], refused: Mask) -> str:
    """The figures of the one of these rows that lacks least."""
    found = [refusal for row, refusal in figures.items() if refused[row]]
    return min(found, key=lambda refusal: (refusal.missing, refusal.nearest)).nearest if found else ""
