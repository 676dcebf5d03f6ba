"""Amplified allocatable: a node whose CPUs are faster offers more of them, by a ratio on the node.

The amplified value is stored in the field that the kubelet writes, so every writer of the status must know which of
both it sees. Upstream tells by a changed value: it misses a kubelet that reports exactly the amplified one, leaves the
amplified value standing when the ratio becomes 1, and compounds when amplification is switched off and on without a
report between. The caller says who wrote (the kubelet, by its user name, or another); the raw value is restored when
amplification ends.
Limits: CPU and memory.
Source: Koordinator, pkg/webhook/node/plugins/resourceamplification and
pkg/slo-controller/noderesource/plugins/resourceamplification.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal, InvalidOperation
from math import ceil

from cotenant.model.cpus.amplification import MAX_RATIO
from cotenant.model.errors import InvalidInput
from cotenant.model.json_object import json_object
from cotenant.model.resources import CPU_NAME, MAX_AMOUNT, MEMORY_NAME

AMPLIFIED = (CPU_NAME, MEMORY_NAME)
HIGHEST_NORMALIZATION = Decimal(5)


@dataclass(frozen=True, slots=True)
class Amplified:
    """A node's allocatable amounts, and the raw amounts behind them; None = no annotation of raw amounts."""

    allocatable: Mapping[str, int]
    raw: Mapping[str, int] | None


def amplify(
    allocatable: Mapping[str, int],
    ratios: Mapping[str, float] | None,
    raw: Mapping[str, int] | None,
    *,
    by_kubelet: bool,
) -> Amplified:
    """A node status on its way to the store: what is to be stored.

    `allocatable` is as written, `raw` as stored before (None or empty = not amplified so far), `by_kubelet` whether the
    kubelet wrote, so that the amounts are raw. A ratio below 1 counts as 1: a node is never made smaller. Raises
    `InvalidInput` for an amount that no machine has.
    """
    stored = {} if by_kubelet else {name: amount for name, amount in (raw or {}).items() if name in AMPLIFIED}
    found = {name: stored.get(name, allocatable[name]) for name in AMPLIFIED if name in allocatable}
    if ratios is None:
        return Amplified({**allocatable, **found}, None)
    wanted = {name: int(Decimal(amount) * _ratio(ratios.get(name, 1.0))) for name, amount in found.items()}
    for name, amount in wanted.items():
        if amount >= MAX_AMOUNT:
            raise InvalidInput(f"amplified {name}", amount, f"less than {MAX_AMOUNT}", "no machine has that much")
    return Amplified({**allocatable, **wanted}, found)


def usable_ratios(field: str, text: str) -> tuple[dict[str, float], tuple[str, ...]]:
    """The ratios of an annotation that can be used, and a sentence for each that cannot. `field` names the
    annotation.
    """
    try:
        given = json_object(field, text, "a JSON object of ratios by resource")
    except InvalidInput as error:
        return {}, (str(error),)
    usable: dict[str, float] = {}
    wrong = []
    for name in AMPLIFIED:
        ratio = given.get(name, 1.0)
        if isinstance(ratio, bool) or not isinstance(ratio, int | float) or not 1 <= ratio <= MAX_RATIO:
            shown = f'"{ratio}"' if isinstance(ratio, str) else ratio
            wrong.append(str(InvalidInput(f"{field}: {name}", shown, f"a number from 1 to {MAX_RATIO:g}")))
        elif name in given:
            usable[name] = float(ratio)
    return usable, tuple(wrong)


def kubelet_changed(old: Mapping[str, int] | None, new: Mapping[str, int] | None) -> bool:
    """Whether CPU or memory differ, where the author of a write is not known: then it counts as the kubelet's."""
    if old is None or new is None:
        return False
    return any(old.get(name) != new.get(name) for name in AMPLIFIED)


def amplification_ratios(
    configured: Mapping[str, float] | None, cpu_normalization: str | None
) -> dict[str, str] | None:
    """The ratios to annotate: the configured ones, CPU's times the CPU normalization ratio; None = none.

    Raises `InvalidInput` for a normalization ratio that is not a number and for a ratio below 1.
    """
    normalization = None if cpu_normalization is None else normalization_ratio(cpu_normalization)
    if configured is None and normalization is None:
        return None
    found = {name: Decimal(str(ratio)) for name, ratio in (configured or {}).items()}
    if normalization is not None and (normalization > 1 or CPU_NAME in found):
        found[CPU_NAME] = found.get(CPU_NAME, Decimal(1)) * normalization
    for name, ratio in found.items():
        if ratio < 1:
            raise InvalidInput(f"amplification ratio of {name}", str(ratio), "1 or more")
    return {name: _two_decimals(ratio) for name, ratio in found.items()} or None


def normalization_ratio(text: str) -> Decimal:
    """A CPU normalization ratio as annotated. Raises `InvalidInput`."""
    try:
        ratio = Decimal(text)
    except InvalidOperation:
        ratio = Decimal("NaN")
    if not (ratio.is_finite() and 1 <= ratio <= HIGHEST_NORMALIZATION):
        raise InvalidInput("CPU normalization ratio", text, f"a number from 1 to {HIGHEST_NORMALIZATION}")
    return ratio


def normalized(cpu_m: int, ratio: Decimal | None) -> int:
    """Batch CPU on a node with this normalization ratio: cut at thousandths of a milli-CPU, then rounded up to a
    whole one.
    """
    if ratio is None or ratio <= 1:
        return cpu_m
    return ceil((Decimal(cpu_m) * ratio).quantize(Decimal("0.001"), ROUND_DOWN))


def _ratio(ratio: float) -> Decimal:
    return Decimal(str(ratio)) if ratio > 1 else Decimal(1)


def _two_decimals(ratio: Decimal) -> str:
    return str(ratio.quantize(Decimal("0.01"), ROUND_HALF_UP))
