"""Arguments of a profile's plugins: checked as kube-scheduler checks them, and what they say of pods and scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from cotenant.drivers.kube.kinds.durations import duration_s
from cotenant.drivers.kube.kinds.pod.affinity import ApiSpreadConstraint, read_node_affinity, read_spread_constraints
from cotenant.drivers.kube.kinds.pod.by_scheduler import IgnoredResources
from cotenant.model.cluster.affinity import NodeAffinity, SpreadConstraint
from cotenant.model.errors import InvalidInput
from cotenant.policy.placement.kube_scoring import MAX_SHAPE_SCORE, USUAL, FitStrategy, KubeScoring, ScoreWeights
from cotenant.services.scheduler_config import forms
from cotenant.services.scheduler_config.settings import SettingVerdicts

A = TypeVar("A", bound=forms.PluginArgs)
_API_VERSION = "kubescheduler.config.k8s.io/v1"


@dataclass(frozen=True, slots=True)
class PluginArguments:
    """What the arguments of one profile say."""

    scoring: KubeScoring
    ignored: IgnoredResources
    added_affinity: NodeAffinity | None
    is_spread_by_system: bool
    constraints: tuple[SpreadConstraint, ...]
    bind_timeout_s: float | None


class ArgumentReader:
    """Reads the arguments of one profile; `path` is that of its `pluginConfig`."""

    def __init__(self, written: tuple[forms.PluginConfig, ...], path: str, settings: SettingVerdicts) -> None:
        """Raises `InvalidInput` for a plugin that is named twice."""
        self._settings = settings
        self._written: dict[str, tuple[Mapping[str, object], str]] = {}
        for i, config in enumerate(written):
            if config.name in self._written:
                raise InvalidInput(f"{path}[{i}].name", config.name, "each plugin once")
            self._written[config.name] = config.args, f"{path}[{i}].args"
            if config.name not in forms.ARGS:
                why = "no such plugin here, or one without arguments"
                settings.not_supported(f"{path}[{i}] ({config.name})", why)

    def read(self, weights: ScoreWeights) -> PluginArguments:
        """Everything. Raises `InvalidInput`."""
        fit, fit_at = self._args("NodeResourcesFit", forms.NodeResourcesFitArgs)
        strategy, resources, shape = self._strategy(fit.scoring_strategy, f"{fit_at}.scoringStrategy")
        affinity, affinity_at = self._args("InterPodAffinity", forms.InterPodAffinityArgs)
        hard = 1 if affinity.hard_pod_affinity_weight is None else affinity.hard_pod_affinity_weight
        _within(f"{affinity_at}.hardPodAffinityWeight", hard, 0, 100)
        by_system, constraints = self._spread()
        self._preemption()
        self._dynamic_resources()
        return PluginArguments(
            KubeScoring(
                weights,
                strategy,
                resources,
                shape,
                self._balanced(),
                hard,
                affinity.ignore_preferred_terms_of_existing_pods,
            ),
            self._ignored(fit, fit_at),
            self._added_affinity(),
            by_system,
            constraints,
            self._bind_timeout_s(),
        )

    def _args(self, name: str, form: type[A]) -> tuple[A, str]:
        """The arguments, and where they stand. What is read here is honoured unless something else is said of it."""
        written, path = self._written.get(name, ({}, f"pluginConfig ({name})"))
        found = forms.read_form(form, written, path, f"{name}Args")
        if found.kind not in ("", f"{name}Args"):
            raise InvalidInput(f"{path}.kind", found.kind, f"{name}Args")
        if found.api_version not in ("", _API_VERSION):
            raise InvalidInput(f"{path}.apiVersion", found.api_version, _API_VERSION)
        return found, path

    def _set(self, name: str, *fields: str) -> None:
        """Fields that are honoured, where they are written."""
        written, path = self._written.get(name, ({}, ""))
        for field in fields:
            if field in written:
                self._settings.honoured(f"{path}.{field}")

    def _ignored(self, fit: forms.NodeResourcesFitArgs, path: str) -> IgnoredResources:
        for i, group in enumerate(fit.ignored_resource_groups):
            if "/" in group or not group:
                raise InvalidInput(f"{path}.ignoredResourceGroups[{i}]", group, "what stands before the slash")
        for i, name in enumerate(fit.ignored_resources):
            if not name.strip("/"):
                raise InvalidInput(f"{path}.ignoredResources[{i}]", name, "the name of a resource")
        self._set("NodeResourcesFit", "ignoredResources", "ignoredResourceGroups")
        return IgnoredResources(frozenset(fit.ignored_resources), frozenset(fit.ignored_resource_groups))

    def _strategy(
        self, written: forms.ScoringStrategy | None, path: str
    ) -> tuple[FitStrategy, tuple[tuple[str, int], ...], tuple[tuple[int, int], ...]]:
        self._set("NodeResourcesFit", "scoringStrategy")
        if written is None:
            return USUAL.strategy, USUAL.resources, ()
        if written.type not in list(FitStrategy):
            raise InvalidInput(f"{path}.type", written.type, f"one of {', '.join(FitStrategy)}")
        resources = _weighed(written.resources, f"{path}.resources") or USUAL.resources
        ratio, where = written.requested_to_capacity_ratio, f"{path}.requestedToCapacityRatio"
        if written.type != FitStrategy.REQUESTED_TO_CAPACITY_RATIO:
            if ratio is not None:
                raise InvalidInput(where, "set", f"nothing with type {written.type}")
            return FitStrategy(written.type), resources, ()
        if ratio is None:
            raise InvalidInput(where, "missing", f"a shape with type {written.type}")
        return FitStrategy(written.type), resources, _shape(ratio.shape, f"{where}.shape")

    def _balanced(self) -> tuple[str, ...]:
        args, path = self._args("NodeResourcesBalancedAllocation", forms.NodeResourcesBalancedAllocationArgs)
        self._set("NodeResourcesBalancedAllocation", "resources")
        for i, resource in enumerate(args.resources):
            if resource.weight not in (0, 1):
                raise InvalidInput(f"{path}.resources[{i}].weight", resource.weight, "1")
        names = [name for name, _ in _weighed(args.resources, f"{path}.resources")]
        for i, name in enumerate(names):
            if name in names[:i]:
                raise InvalidInput(f"{path}.resources[{i}].name", name, "each resource once")
        return tuple(names) or USUAL.balanced_resources

    def _added_affinity(self) -> NodeAffinity | None:
        args, path = self._args("NodeAffinity", forms.NodeAffinityArgs)
        self._set("NodeAffinity", "addedAffinity")
        if args.added_affinity is None:
            return None
        written, _ = self._written["NodeAffinity"]
        _refuse_unknown(written["addedAffinity"], msgspec.to_builtins(args.added_affinity), f"{path}.addedAffinity")
        return read_node_affinity(args.added_affinity, f"{path}.addedAffinity")

    def _spread(self) -> tuple[bool, tuple[SpreadConstraint, ...]]:
        args, path = self._args("PodTopologySpread", forms.PodTopologySpreadArgs)
        self._set("PodTopologySpread", "defaultingType", "defaultConstraints")
        kind, where = args.defaulting_type or "System", f"{path}.defaultConstraints"
        if kind not in ("System", "List"):
            raise InvalidInput(f"{path}.defaultingType", kind, "System or List")
        if kind == "System":
            if args.default_constraints:
                raise InvalidInput(f"{path}.defaultingType", kind, "List, where defaultConstraints are given")
            return True, ()
        seen: set[tuple[str, str]] = set()
        for i, constraint in enumerate(args.default_constraints):
            if constraint.label_selector is not None:
                expected = "no selector: it is deduced for each pod"
                raise InvalidInput(f"{where}[{i}].labelSelector", "set", expected)
            if constraint.match_label_keys:
                self._settings.irrelevant(f"{where}[{i}].matchLabelKeys", "the selector is deduced for each pod")
            what = (constraint.topology_key, constraint.when_unsatisfiable)
            if what in seen:
                raise InvalidInput(f"{where}[{i}]", ", ".join(what), "each topologyKey once for each whenUnsatisfiable")
            seen.add(what)
        written = [
            ApiSpreadConstraint(
                max_skew=entry.max_skew,
                topology_key=entry.topology_key,
                when_unsatisfiable=entry.when_unsatisfiable,
                min_domains=entry.min_domains,
                node_affinity_policy=entry.node_affinity_policy,
                node_taints_policy=entry.node_taints_policy,
            )
            for entry in args.default_constraints
        ]
        found: list[SpreadConstraint] = []
        for i, constraint_ in enumerate(written):
            try:
                found += read_spread_constraints((constraint_,), {}, where)
            except InvalidInput as error:
                inside = error.field.removeprefix(f"{where}[0]").removeprefix("topologySpreadConstraints")
                raise InvalidInput(f"{where}[{i}]{inside}", error.value, error.expected, error.hint) from None
        return False, tuple(found)

    def _preemption(self) -> None:
        args, path = self._args("DefaultPreemption", forms.DefaultPreemptionArgs)
        percentage = 10 if args.min_candidate_nodes_percentage is None else args.min_candidate_nodes_percentage
        absolute = 100 if args.min_candidate_nodes_absolute is None else args.min_candidate_nodes_absolute
        _within(f"{path}.minCandidateNodesPercentage", percentage, 0, 100)
        if absolute < 0 or percentage == absolute == 0:
            raise InvalidInput(f"{path}.minCandidateNodesAbsolute", absolute, "0 or more, and one of both above 0")
        for field in ("minCandidateNodesPercentage", "minCandidateNodesAbsolute"):
            if field in self._written.get("DefaultPreemption", ({}, ""))[0]:
                self._settings.irrelevant(f"{path}.{field}", "victims are searched on every node")

    def _dynamic_resources(self) -> None:
        args, path = self._args("DynamicResources", forms.DynamicResourcesArgs)
        for field, text in (("filterTimeout", args.filter_timeout), ("bindingTimeout", args.binding_timeout)):
            if text is not None:
                duration_s(text, f"{path}.{field}")
                self._settings.not_supported(f"{path}.{field}", "judgement of a pod has a limit of its own")

    def _bind_timeout_s(self) -> float | None:
        args, path = self._args("VolumeBinding", forms.VolumeBindingArgs)
        if args.shape:
            _shape(args.shape, f"{path}.shape")
            self._settings.not_supported(f"{path}.shape", "nodes are not scored by the capacity of their storage")
        self._set("VolumeBinding", "bindTimeoutSeconds")
        if args.bind_timeout_seconds is None:
            return None
        if args.bind_timeout_seconds < 0:
            raise InvalidInput(f"{path}.bindTimeoutSeconds", args.bind_timeout_seconds, "0 or more")
        return float(args.bind_timeout_seconds)


def _refuse_unknown(written: object, read: object, path: str) -> None:
    """Raise `InvalidInput` for a field that a form which skips unknown ones did not read; empty ones are left out."""
    if isinstance(written, dict):
        known = read if isinstance(read, dict) else {}
        for key, value in written.items():
            if key in known:
                _refuse_unknown(value, known[key], f"{path}.{key}")
            elif value:
                raise InvalidInput(f"{path}.{key}", "unknown", "a field of a NodeAffinity")
    elif isinstance(written, list) and isinstance(read, list | tuple):
        for i, (entry, known) in enumerate(zip(written, read, strict=True)):
            _refuse_unknown(entry, known, f"{path}[{i}]")


def _weighed(resources: tuple[forms.ResourceForm, ...], path: str) -> tuple[tuple[str, int], ...]:
    for i, resource in enumerate(resources):
        if not resource.name:
            raise InvalidInput(f"{path}[{i}].name", "", "the name of a resource")
        _within(f"{path}[{i}].weight", resource.weight or 1, 1, 100)
    return tuple((resource.name, resource.weight or 1) for resource in resources)


def _shape(points: tuple[forms.Point, ...], path: str) -> tuple[tuple[int, int], ...]:
    if not points:
        raise InvalidInput(path, "empty", "at least one point")
    for i, point in enumerate(points):
        _within(f"{path}[{i}].utilization", point.utilization, 0, 100)
        _within(f"{path}[{i}].score", point.score, 0, MAX_SHAPE_SCORE)
        if i and points[i - 1].utilization >= point.utilization:
            raise InvalidInput(f"{path}[{i}].utilization", point.utilization, "more than that of the point before")
    return tuple((point.utilization, point.score) for point in points)


def _within(path: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise InvalidInput(path, value, f"{low} to {high}")
