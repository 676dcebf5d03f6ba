"""Args of the plugins other than LowNodeLoad: those of the descheduler for violated rules and packing, and two of ours.

Problem and choice as in configuration.py: every key is checked. Where upstream has the plugin its keys are upstream's;
`waitsSeconds` and the like are ours. Limits: only required affinity, NoSchedule and NoExecute taints, and DoNotSchedule
constraints.
Source: Kubernetes' descheduler, plugins RemovePodsViolating... and HighNodeUtilization.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeVar

import msgspec

from cotenant.engine.rebalancer.missed import MISSED
from cotenant.engine.rebalancer.room import DEFRAGMENTATION, PACKING
from cotenant.engine.rebalancer.settings import Defragmentation, MissedObjectives, MoveKinds, Packing, PodScope
from cotenant.model.errors import InvalidInput
from cotenant.policy.rebalance.objectives import MissSettings
from cotenant.policy.rebalance.violations.contract import ViolationRule
from cotenant.services.rebalancer.forms import (
    NamespacesForm,
    RebalancerForm,
    SelectorForm,
    convert,
    namespaces_of,
    not_negative,
    one_of,
    positive,
    selector_of,
)

DESCHEDULE = (
    ViolationRule.NODE_AFFINITY.value,
    ViolationRule.NODE_TAINTS.value,
    ViolationRule.ANTI_AFFINITY.value,
    MISSED,
)
BALANCE = (ViolationRule.SPREAD.value, PACKING, DEFRAGMENTATION)
_REQUIRED, _HARD = "requiredDuringSchedulingIgnoredDuringExecution", "DoNotSchedule"
F = TypeVar("F", bound="_Scoped")


class _Scoped(RebalancerForm, frozen=True):
    api_version: str = "descheduler/v1alpha2"
    kind: str = ""
    namespaces: NamespacesForm = NamespacesForm()
    label_selector: SelectorForm | None = None


class _NodeAffinity(_Scoped, frozen=True):
    node_affinity_type: tuple[str, ...] = (_REQUIRED,)


class _NodeTaints(_Scoped, frozen=True):
    excluded_taints: tuple[str, ...] = ()
    include_prefer_no_schedule: bool = False


class _Spread(_Scoped, frozen=True):
    constraints: tuple[str, ...] = (_HARD,)


class _HighNodeUtilization(_Scoped, frozen=True):
    thresholds: dict[str, float] = msgspec.field(default_factory=dict)
    number_of_nodes: int = 0
    evictable_namespaces: NamespacesForm = NamespacesForm()
    max_nodes_per_round: int = 1  # ours


class _Defragmentation(_Scoped, frozen=True):
    waits_seconds: float = 60.0
    max_pods_moved: int = 4
    max_waiting: int = 4


class _MissedObjectives(_Scoped, frozen=True):
    windows: int = 3
    min_gain: float = 0.1
    max_victims: int = 4
    rest_seconds: float = 3600.0
    max_percent_per_hour: float | None = None


def read_kinds(names: Collection[str], args: Mapping[str, tuple[str, dict[str, object]]]) -> MoveKinds:
    """The settings of the enabled plugins. `args`: by plugin, with the field's path. Raises `InvalidInput`."""

    def of(form: type[F], name: str) -> tuple[F, str]:
        field, given = args.get(name, (name, {}))
        return convert(form, given, field), field

    repairs: dict[ViolationRule, PodScope] = {}
    excluded: tuple[str, ...] = ()
    for rule in ViolationRule:
        if rule.value not in names:
            continue
        if rule is ViolationRule.NODE_AFFINITY:
            affinity, field = of(_NodeAffinity, rule)
            for entry in affinity.node_affinity_type:
                one_of(entry, (_REQUIRED,), f"{field}.nodeAffinityType")
            repairs[rule] = _scope(affinity, field)
        elif rule is ViolationRule.NODE_TAINTS:
            taints, field = of(_NodeTaints, rule)
            if taints.include_prefer_no_schedule:
                raise InvalidInput(
                    f"{field}.includePreferNoSchedule", True, "false: only taints that repel are considered"
                )
            excluded = tuple(taints.excluded_taints)
            repairs[rule] = _scope(taints, field)
        elif rule is ViolationRule.SPREAD:
            spread, field = of(_Spread, rule)
            for constraint in spread.constraints:
                one_of(constraint, (_HARD,), f"{field}.constraints")
            repairs[rule] = _scope(spread, field)
        else:
            repairs[rule] = _scope(*of(_Scoped, rule))
    return MoveKinds(
        repairs,
        excluded,
        _missed(*of(_MissedObjectives, MISSED)) if MISSED in names else None,
        _defragmentation(*of(_Defragmentation, DEFRAGMENTATION)) if DEFRAGMENTATION in names else None,
        _packing(*of(_HighNodeUtilization, PACKING)) if PACKING in names else None,
    )


def _scope(given: _Scoped, field: str) -> PodScope:
    namespaces = namespaces_of(given.namespaces, f"{field}.namespaces")
    selector = None if given.label_selector is None else selector_of(given.label_selector, f"{field}.labelSelector")
    return PodScope(tuple(namespaces.include), tuple(namespaces.exclude), selector)


def _packing(given: _HighNodeUtilization, field: str) -> Packing:
    if not given.thresholds:
        raise InvalidInput(f"{field}.thresholds", "{}", "percentages of requests, such as {cpu: 20, memory: 20}")
    for name, value in given.thresholds.items():
        if not 0 <= value <= 100:
            raise InvalidInput(f"{field}.thresholds.{name}", value, "0 to 100 percent")
    scope = _scope(given, field)
    namespaces = namespaces_of(given.evictable_namespaces, f"{field}.evictableNamespaces")
    return Packing(
        given.thresholds,
        not_negative(given.number_of_nodes, f"{field}.numberOfNodes"),
        positive(given.max_nodes_per_round, f"{field}.maxNodesPerRound"),
        PodScope((*scope.include, *namespaces.include), (*scope.exclude, *namespaces.exclude), scope.selector),
    )


def _defragmentation(given: _Defragmentation, field: str) -> Defragmentation:
    if given.waits_seconds < 0:
        raise InvalidInput(f"{field}.waitsSeconds", given.waits_seconds, "0 or more seconds")
    return Defragmentation(
        given.waits_seconds,
        positive(given.max_pods_moved, f"{field}.maxPodsMoved"),
        positive(given.max_waiting, f"{field}.maxWaiting"),
        _scope(given, field),
    )


def _missed(given: _MissedObjectives, field: str) -> MissedObjectives:
    for name, value in (("minGain", given.min_gain), ("restSeconds", given.rest_seconds)):
        if value < 0:
            raise InvalidInput(f"{field}.{name}", value, "0 or more")
    share = given.max_percent_per_hour
    if share is not None and not 0 < share <= 100:
        raise InvalidInput(
            f"{field}.maxPercentPerHour", share, "more than 0, at most 100 percent of the pods with an objective"
        )
    windows = positive(given.windows, f"{field}.windows")
    return MissedObjectives(
        MissSettings(float(windows), min_gain=given.min_gain, rest_s=given.rest_seconds),
        positive(given.max_victims, f"{field}.maxVictims"),
        hour_share=None if share is None else share / 100.0,
        scope=_scope(given, field),
    )
