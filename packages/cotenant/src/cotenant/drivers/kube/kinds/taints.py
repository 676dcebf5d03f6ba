"""Taints and tolerations: as the API writes them, and read as the model's values.

Limits: `tolerationSeconds` is not read; it does not concern placement. Source: Kubernetes API reference (Taint,
Toleration).
"""

from __future__ import annotations

from collections.abc import Iterable

from cotenant.drivers.kube.kinds.kind import ApiStruct, Text
from cotenant.drivers.kube.kinds.selectors import one_of
from cotenant.model.cluster import taints as model
from cotenant.model.cluster.taints import Match, TaintEffect


class ApiTaint(ApiStruct, frozen=True):
    """A node's taint."""

    key: str = ""
    value: Text = None
    effect: str = ""


class ApiToleration(ApiStruct, frozen=True):
    """Toleration, without tolerationSeconds: it does not concern placement."""

    key: Text = None
    operator: Text = None
    value: Text = None
    effect: Text = None


def read_taints(written: Iterable[ApiTaint], field: str) -> tuple[model.Taint, ...]:
    """A node's taints."""
    return tuple(
        model.Taint(taint.key, taint.value or "", one_of(TaintEffect, taint.effect, f"{field}[{i}].effect"))
        for i, taint in enumerate(written)
    )


def read_tolerations(written: Iterable[ApiToleration], field: str) -> tuple[model.Toleration, ...]:
    """Tolerations; the operator is Equal where none is given."""
    return tuple(
        model.Toleration(
            toleration.key or "",
            one_of(Match, toleration.operator or "Equal", f"{field}[{i}].operator"),
            toleration.value or "",
            one_of(TaintEffect, toleration.effect, f"{field}[{i}].effect") if toleration.effect else None,
        )
        for i, toleration in enumerate(written)
    )
