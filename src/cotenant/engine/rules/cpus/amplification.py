"""The CPU check of nodes with amplified capacity: exclusive CPUs count as CPUs times the ratio, in capacity and in requests.

Limits: applied only to pods with exclusive CPUs; other pods are checked by the plain sum.

Source: Koordinator, NodeNUMAResource (amplification).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np

from cotenant.engine.encoding.encoder import Encoder
from cotenant.engine.framework.node_rules import Rule
from cotenant.engine.rules.cpus.accounts import CpuAccount
from cotenant.model.arrays import CPU, Mask
from cotenant.policy.placement.cpus.amplification import amplified_fit
from cotenant.policy.placement.refusal import Refusal

INSUFFICIENT_AMPLIFIED = "Insufficient amplified cpu"


def short_of_amplified(plugin: str, encoder: Encoder, nodes: Mapping[str, CpuAccount], cpu_m: int) -> Iterator[Rule]:
    """Refuse those of `nodes`, all with an amplification ratio, that lack room for `cpu_m` milli-CPU of exclusive CPUs."""
    table = encoder.nodes()
    figures: dict[int, Refusal] = {}
    for name, account in nodes.items():
        row = encoder.node_rows.get(name)
        if row is None or account.reported is None:
            continue
        own_m = sum(claim.cpus.bit_count() * 1000 for claim in account.claims.values())
        promised_m, requested_m = int(table.capacity[row, CPU]), int(table.requested[row, CPU])
        refusal = amplified_fit(cpu_m, True, promised_m, requested_m, own_m, account.reported.ratio_ppm)
        if refusal is not None:
            figures[row] = refusal
    if figures:
        left = np.ones(len(table.ready), dtype=np.bool_)
        left[list(figures)] = False
        yield Rule(plugin, INSUFFICIENT_AMPLIFIED, left, False, partial(_least, figures))


def _least(figures: Mapping[int, Refusal], refused: Mask) -> str:
    """Figures of the refused row with the smallest shortage."""
    found = [refusal for row, refusal in figures.items() if refused[row]]
    return min(found, key=lambda refusal: (refusal.missing, refusal.nearest)).nearest if found else ""
