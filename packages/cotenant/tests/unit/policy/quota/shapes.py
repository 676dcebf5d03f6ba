"""Quotas, trees and pods of a few words."""

from __future__ import annotations

from typing import Any

from cotenant.model.groups.quota import ROOT_QUOTA, Quota, QuotaPod
from cotenant.model.resources import Amounts


def cpu(amount: int) -> Amounts:
    return Amounts.of({"cpu": amount})


def quota(name: str, minimum: int = 0, maximum: int = 100, parent: str = ROOT_QUOTA, **more: Any) -> Quota:
    return Quota(name, cpu(maximum), cpu(minimum), parent, **more)


def pod(uid: str, request: int, priority: int = 0, **more: Any) -> QuotaPod:
    return QuotaPod(uid, cpu(request), priority, **more)
