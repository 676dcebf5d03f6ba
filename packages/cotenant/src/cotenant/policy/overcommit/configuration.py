"""The state of the configuration as ConfigMap events come: the last good one stays.

A typing error in a ConfigMap must change nothing, must be visible, and must not stop a manager that starts while it
stands. A state that keeps the last good configuration beside the error; without a ConfigMap, or without the key, the
defaults (colocation off) are in force.
Limits: a manager that starts while the ConfigMap is bad knows no good one; then nothing is written and nothing is
withdrawn (`is_available` is false).
Source: Koordinator, pkg/slo-controller/config/colocation_cm_event_handler.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cotenant.model.errors import InvalidInput
from cotenant.policy.overcommit.strategy import DEFAULTS, KEY, ColocationConfig, read_config


@dataclass(frozen=True, slots=True)
class ColocationState:
    """The configuration in force, None where none was ever good; `error` says why the last one was refused or is
    absent.
    """

    config: ColocationConfig | None = None
    is_available: bool = False
    error: str = ""

    def changed_from(self, before: ColocationState) -> bool:
        """Whether nodes have to be looked at again."""
        return self.is_available and (not before.is_available or self.config != before.config)


def colocation_read(data: Mapping[str, str] | None, before: ColocationState) -> ColocationState:
    """The state after a ConfigMap event; None = there is no ConfigMap."""
    if data is None:
        return ColocationState(ColocationConfig(DEFAULTS), True, "there is no ConfigMap: defaults, nothing is lent")
    text = data.get(KEY)
    if text is None:
        return ColocationState(ColocationConfig(DEFAULTS), True)
    try:
        return ColocationState(read_config(text), True)
    except InvalidInput as error:
        return ColocationState(before.config, before.is_available, str(error))
