"""CPU normalization and amplification ratios of a node, from the ConfigMap and the node's CPU.

A cluster of several CPU generations wants a CPU to mean the same work everywhere; the ratio depends on the model,
hyper-threading and turbo, and a typing error would resize every node. Two keys of the ConfigMap, each read as a whole
or refused with its path; a node's normalization ratio is the model's, else the default, from 1 to 5 with two decimals;
its amplification ratios are the configured ones, CPU's times the normalization ratio. A node whose ratio is not known
keeps what it has. Where a key is absent, nothing of it is written: ratios that people annotate stay.
Limits: the table is measured by the administrator, and a ratio below 1 in it (upstream's own example has one) is
refused for the nodes that it would apply to; a switched-off normalization writes 1.00 only where there is a ratio
already.

Source: Koordinator, pkg/slo-controller/noderesource/plugins/{cpunormalization,resourceamplification};
apis/configuration (slo_controller_config.go).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from typing import Generic, TypeVar

from cotenant.model.cluster.labels import Labels, LabelSelector
from cotenant.model.cpus.basic_info import CpuInfo
from cotenant.model.errors import InvalidInput
from cotenant.model.json_object import JsonMapping, JsonObject
from cotenant.policy.overcommit.amplification import HIGHEST_NORMALIZATION, amplification_ratios
from cotenant.policy.overcommit.selection import json_value, read_selector

NORMALIZATION_KEY = "cpu-normalization-config"
AMPLIFICATION_KEY = "resource-amplification-config"
ENABLED_LABEL = "node.koordinator.sh/cpu-normalization-enabled"
OFF = "1.00"
# By (hyper-threading, turbo).
_RATIOS = {
    (False, False): "baseRatio",
    (True, False): "hyperThreadEnabledRatio",
    (False, True): "turboEnabledRatio",
    (True, True): "hyperThreadTurboEnabledRatio",
}


@dataclass(frozen=True, slots=True)
class Normalization:
    """The strategy of normalization; ratios by model, then by name."""

    enable: bool = False
    default: Decimal | None = None
    models: Mapping[str, Mapping[str, Decimal]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Amplification:
    """The strategy of amplification."""

    enable: bool = False
    ratios: Mapping[str, float] = field(default_factory=dict)


S = TypeVar("S", Normalization, Amplification)


@dataclass(frozen=True, slots=True)
class Selected(Generic[S]):
    """A strategy for the cluster, and those of selected nodes, merged with it already."""

    cluster: S
    nodes: tuple[tuple[LabelSelector | None, S], ...] = ()

    def of_node(self, labels: Labels) -> S:
        """The first that selects the node, else the cluster's."""
        return next(
            (node for selector, node in self.nodes if selector is not None and selector.matches(labels)), self.cluster
        )


@dataclass(frozen=True, slots=True)
class RatioConfig:
    """Both keys; None = the key is absent."""

    normalization: Selected[Normalization] | None = None
    amplification: Selected[Amplification] | None = None
    refused: tuple[str, ...] = field(default=(), compare=False)  # keys that are not in force, and why


def read_ratio_config(data: Mapping[str, str] | None, previous: RatioConfig) -> RatioConfig:
    """The configuration from a ConfigMap's data. A key that cannot be read keeps what was in force."""
    refused: list[str] = []
    given = data or {}

    def read(
        key: str, form: Callable[[JsonObject, str, S], S], empty: S, before: Selected[S] | None
    ) -> Selected[S] | None:
        if key not in given:
            return None
        try:
            value = json_value(key, given[key])
            cluster = form(value, key, empty)
            nodes = value.get("nodeConfigs") or []
            if not isinstance(nodes, list) or not all(isinstance(node, Mapping) for node in nodes):
                raise InvalidInput(f"{key}.nodeConfigs", nodes, "a list of objects")
            return Selected(
                cluster,
                tuple(
                    (
                        read_selector(node.get("nodeSelector"), f"{key}.nodeConfigs[{i}].nodeSelector"),
                        form(node, f"{key}.nodeConfigs[{i}]", cluster),
                    )
                    for i, node in enumerate(nodes)
                ),
            )
        except InvalidInput as error:
            refused.append(str(error))
            return before

    return RatioConfig(
        read(NORMALIZATION_KEY, _normalization, Normalization(), previous.normalization),
        read(AMPLIFICATION_KEY, _amplification, Amplification(), previous.amplification),
        tuple(refused),
    )


@dataclass(frozen=True, slots=True)
class NodeRatios:
    """The annotations that a node should have; a field of `KEEP` leaves what stands, None removes it."""

    normalization: str | None
    amplification: str | None
    reason: str = ""  # why something is kept


KEEP = "\0"


def ratios_of(
    config: RatioConfig, labels: Labels, cpu: CpuInfo | None, normalization: str, amplification: str
) -> NodeRatios:
    """The ratios of a node; the last two are its annotations now, "" = none."""
    wanted: str | None = KEEP
    reason = ""
    if config.normalization is not None:
        strategy = config.normalization.of_node(labels)
        label = labels.get(ENABLED_LABEL)
        if strategy.enable if label not in ("true", "false") else label == "true":
            try:
                wanted = normalization_of(strategy, cpu)
            except InvalidInput as error:
                reason = str(error)
        elif normalization:
            wanted = OFF
    if config.amplification is None:
        return NodeRatios(wanted, KEEP, reason)
    chosen = config.amplification.of_node(labels)
    if not chosen.enable:
        return NodeRatios(wanted, None if amplification else KEEP, reason)
    now = normalization if wanted == KEEP else wanted or ""
    try:
        found = amplification_ratios(chosen.ratios or None, now or None)
    except InvalidInput as error:
        return NodeRatios(wanted, KEEP, reason or str(error))
    if found is None:
        return NodeRatios(wanted, None if amplification else KEEP, reason)
    text = json.dumps({name: float(ratio) for name, ratio in sorted(found.items())}, separators=(",", ":"))
    return NodeRatios(wanted, text, reason)


def normalization_of(strategy: Normalization, cpu: CpuInfo | None) -> str:
    """The ratio of a CPU, with two decimals. Raises `InvalidInput` where the table has none."""
    found: Decimal | None = None
    if cpu is not None:
        found = strategy.models.get(cpu.model, {}).get(_RATIOS[cpu.hyper_threading, cpu.turbo])
    found = strategy.default if found is None else found
    if found is None:
        what = "not reported" if cpu is None else f"{cpu.model} ({_RATIOS[cpu.hyper_threading, cpu.turbo]})"
        raise InvalidInput("CPU of the node", what, f"a model of {NORMALIZATION_KEY}.ratioModel, or a defaultRatio")
    ratio = found.quantize(Decimal("0.01"), ROUND_HALF_UP)
    if ratio < 1:
        raise InvalidInput("CPU normalization ratio", str(ratio), "1 or more: choose the slowest CPU as the reference")
    return str(ratio)


def _normalization(value: JsonMapping, where: str, base: Normalization) -> Normalization:
    models = dict(base.models)
    given = value.get("ratioModel") or {}
    if not isinstance(given, Mapping):
        raise InvalidInput(f"{where}.ratioModel", given, "ratios by CPU model")
    for model, ratios in given.items():
        path = f"{where}.ratioModel[{model}]"
        if not isinstance(ratios, Mapping):
            raise InvalidInput(path, ratios, "ratios by name")
        own = {
            name: _ratio(ratios[name], f"{path}.{name}") for name in _RATIOS.values() if ratios.get(name) is not None
        }
        models[str(model)] = {**models.get(str(model), {}), **own}
    default = value.get("defaultRatio")
    return Normalization(
        _enable(value, where, base.enable),
        base.default if default is None else _ratio(default, f"{where}.defaultRatio"),
        models,
    )


def _amplification(value: JsonMapping, where: str, base: Amplification) -> Amplification:
    given = value.get("resourceAmplificationRatio") or {}
    path = f"{where}.resourceAmplificationRatio"
    if not isinstance(given, Mapping):
        raise InvalidInput(path, given, "ratios by resource")
    for name, ratio in given.items():
        if isinstance(ratio, bool) or not isinstance(ratio, int | float) or not 1 <= ratio <= 100:
            raise InvalidInput(f"{path}.{name}", ratio, "a number from 1 to 100")
    return Amplification(_enable(value, where, base.enable), {**base.ratios, **{n: float(r) for n, r in given.items()}})


def _enable(value: JsonMapping, where: str, base: bool) -> bool:
    found = value.get("enable")
    if found is not None and not isinstance(found, bool):
        raise InvalidInput(f"{where}.enable", found, "true or false")
    return base if found is None else found


def _ratio(value: object, where: str) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput(where, value, f"a number above 0, at most {HIGHEST_NORMALIZATION}")
    found = Decimal(str(value))
    if not (found.is_finite() and 0 < found <= HIGHEST_NORMALIZATION):
        raise InvalidInput(where, value, f"a number above 0, at most {HIGHEST_NORMALIZATION}")
    return found
