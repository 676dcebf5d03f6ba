"""Which plugins a profile scores by, and with which weights; and what else its plugin sets ask for.

Scores can be chosen and weighed, preemption and most filters can be left out. Fit, the binding of volumes and claims
and the points around binding are built in: one that is switched off stays on, and is named. Source: kube-scheduler's
merging of plugin sets (apis/config/v1) and of MultiPoint (framework/runtime), v1.36.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import msgspec

from cotenant.model.cluster.pod import (
    INTER_POD_AFFINITY,
    NODE_AFFINITY,
    NODE_NAMED,
    NODE_PORTS,
    POD_TOPOLOGY_SPREAD,
)
from cotenant.model.cluster.taints import NODE_UNSCHEDULABLE, TAINT_TOLERATION
from cotenant.model.errors import InvalidInput
from cotenant.policy.placement.kube_scoring import ScoreWeights
from cotenant.services.scheduler_config.forms import Plugins, PluginSet
from cotenant.services.scheduler_config.settings import SettingVerdicts

_SCORED = {  # plugin -> field of `ScoreWeights`
    "NodeResourcesFit": "fit",
    "NodeResourcesBalancedAllocation": "balanced",
    "TaintToleration": "taints",
    "NodeAffinity": "node_affinity",
    "PodTopologySpread": "spread",
    "InterPodAffinity": "pod_affinity",
    "ImageLocality": "images",
}
_USUAL = {  # of MultiPoint, with the weight of their scores; 0 = none
    "SchedulingGates": 0,
    "PrioritySort": 0,
    "NodeUnschedulable": 0,
    "NodeName": 0,
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodePorts": 0,
    "NodeResourcesFit": 1,
    "VolumeRestrictions": 0,
    "NodeVolumeLimits": 0,
    "VolumeBinding": 0,
    "VolumeZone": 0,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "DynamicResources": 0,
    "DefaultPreemption": 0,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
    "DefaultBinder": 0,
}
_LEFT_OUT = frozenset(  # filters that can be
    {
        *(NODE_AFFINITY, TAINT_TOLERATION, NODE_UNSCHEDULABLE, NODE_PORTS, POD_TOPOLOGY_SPREAD, INTER_POD_AFFINITY),
        *("VolumeRestrictions", "NodeVolumeLimits", "VolumeZone"),
    }
)
_FILTERING = _LEFT_OUT | {"NodeResourcesFit", "VolumeBinding", "DynamicResources", "NodeName"}
_STAYS = {  # and why
    "NodeResourcesFit": "its filter stays: no node is filled beyond what it has",
    "VolumeBinding": "its filter stays: a pod is not bound before its volumes",
    "DynamicResources": "claims are allocated by the scheduler that binds their pod",
}
_BUILT_IN = {
    "Coscheduling": "gangs are built in: docs/guide/gangs.md",
    "CapacityScheduling": "quotas are built in: docs/guide/quota.md",
    "GangScheduling": "gangs are built in: docs/guide/gangs.md",
    "ElasticQuota": "quotas are built in: docs/guide/quota.md",
}
_REMOVED = ("AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits")
_EVERY = "*"


@dataclass(frozen=True, slots=True)
class ChosenPlugins:
    """What the sets choose."""

    weights: ScoreWeights
    preempts: bool
    unfiltered: frozenset[str]  # as `Pod` has it


def choose(plugins: Plugins, path: str, settings: SettingVerdicts) -> ChosenPlugins:
    """What a profile's sets choose; `path` is that of `plugins`. Raises `InvalidInput`."""
    points = {point.encode_name: getattr(plugins, point.name) for point in msgspec.structs.fields(Plugins)}
    for point, plugin_set in points.items():
        _check(plugin_set, f"{path}.{point}")
    if len(plugins.queue_sort.enabled) > 1:
        count = len(plugins.queue_sort.enabled)
        raise InvalidInput(f"{path}.queueSort.enabled", f"{count} plugins", "one plugin")
    weights = _at("score", plugins)
    everywhere = {name for name, _ in _merged(plugins.multi_point)}
    filtering = _at("filter", plugins).keys()
    for point, plugin_set in points.items():
        _judge(point, plugin_set, f"{path}.{point}", settings, everywhere, filtering)
    unfiltered = _LEFT_OUT - frozenset(filtering)
    if NODE_AFFINITY in unfiltered and NODE_AFFINITY not in _at("pre_filter", plugins):
        unfiltered |= {NODE_NAMED}  # upstream takes the node that a pod names from PreFilter
    by_field = {field: weights.get(name, 0) for name, field in _SCORED.items()}
    return ChosenPlugins(ScoreWeights(**by_field), "DefaultPreemption" in _at("post_filter", plugins), unfiltered)


def _check(plugin_set: PluginSet, path: str) -> None:
    for kind, listed in (("enabled", plugin_set.enabled), ("disabled", plugin_set.disabled)):
        seen: set[str] = set()
        for i, plugin in enumerate(listed):
            where = f"{path}.{kind}[{i}]"
            if not plugin.name:
                raise InvalidInput(f"{where}.name", "", "the name of a plugin")
            if plugin.name in _REMOVED:
                raise InvalidInput(f"{where}.name", plugin.name, "a plugin that v1 has", "NodeVolumeLimits replaces it")
            if kind == "enabled" and plugin.name in seen:
                raise InvalidInput(f"{where}.name", plugin.name, "each plugin once")
            if plugin.weight is not None and plugin.weight < 0:
                raise InvalidInput(f"{where}.weight", plugin.weight, "0 or more; 0 counts as 1")
            seen.add(plugin.name)


def _merged(custom: PluginSet) -> Iterator[tuple[str, int]]:
    """MultiPoint: the usual plugins without those that are disabled, as they are enabled anew, and those enabled
    besides; with the weights of their scores.
    """
    disabled = {plugin.name for plugin in custom.disabled}
    enabled = {plugin.name: plugin.weight or 1 for plugin in custom.enabled}
    usual = {} if _EVERY in disabled else {name: at for name, at in _USUAL.items() if name not in disabled}
    yield from (usual | enabled).items()


def _at(point: str, plugins: Plugins) -> Mapping[str, int]:
    """Plugins of a point, with weights: its own, then MultiPoint's that are not disabled there."""
    own: PluginSet = getattr(plugins, point)
    disabled = {plugin.name for plugin in own.disabled}
    found = {plugin.name: plugin.weight or 1 for plugin in own.enabled}
    if _EVERY not in disabled:
        for name, weight in _merged(plugins.multi_point):
            if name not in disabled:
                found.setdefault(name, weight)
    return found


def _judge(
    point: str,
    plugin_set: PluginSet,
    path: str,
    settings: SettingVerdicts,
    everywhere: Collection[str],
    filtering: Collection[str],
) -> None:
    for i, plugin in enumerate(plugin_set.enabled):
        where = f"{path}.enabled[{i}] ({plugin.name})"
        if plugin.name in _BUILT_IN:
            settings.irrelevant(where, _BUILT_IN[plugin.name])
        elif plugin.name not in _USUAL:
            settings.not_supported(where, "no such plugin here; those of installed packages are named by --plugin")
        elif point == "score" and plugin.name not in _SCORED:
            settings.not_supported(where, "it gives no score here")
        else:
            settings.honoured(where)
    names = [plugin.name for plugin in plugin_set.disabled]
    for i, name in enumerate(names):
        for one in sorted(_USUAL) if name == _EVERY else (name,):
            enabled_again = point == "multiPoint" and one in everywhere
            if enabled_again:
                continue
            where = f"{path}.disabled[{i}] ({one})"
            _judge_disabled(point, one, where, settings, filtering, by_star=name == _EVERY)


def _judge_disabled(
    point: str, name: str, where: str, settings: SettingVerdicts, filtering: Collection[str], *, by_star: bool
) -> None:
    """`filtering`: the plugins whose filters the sets together leave on."""
    if name not in _USUAL:
        settings.irrelevant(where, "there is no such plugin here")
    elif point == "score":
        if name in _SCORED or not by_star:
            settings.honoured(where)
    elif point == "preScore":
        settings.not_supported(where, "a score is switched off at the point score")
    elif point == "postFilter":
        settings.honoured(where)
    elif point in ("multiPoint", "preFilter", "filter") and name in _FILTERING:
        if name == "NodeName":
            settings.irrelevant(where, "a pod that names its node is not scheduled")
        elif name in _STAYS:
            settings.not_supported(where, _STAYS[name])
        elif name in filtering:
            settings.not_supported(where, "its filter is on, and prepares itself")
        elif name == NODE_UNSCHEDULABLE and TAINT_TOLERATION in filtering:
            settings.irrelevant(where, "the taint of a cordoned node keeps pods off, by TaintToleration")
        else:
            settings.honoured(where)
    elif point == "multiPoint" and name in (*_SCORED, "DefaultPreemption"):
        settings.honoured(where)
    elif not by_star or point == "multiPoint":
        settings.not_supported(where, "it is built in, and stays")
