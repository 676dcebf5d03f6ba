"""Arguments of plugins at their bounds, and further than the usual mistakes."""

from __future__ import annotations

import pytest

from cotenant.model.errors import InvalidInput
from cotenant.services.scheduler_config.configuration_file import SchedulerConfig, parse_config
from cotenant.services.scheduler_config.settings import SettingVerdict

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
SHAPE = "NodeResourcesFit: {scoringStrategy: {type: RequestedToCapacityRatio, requestedToCapacityRatio: {shape: [%s]}}}"
SPREAD = "PodTopologySpread: {defaultingType: List, defaultConstraints: [%s]}"
TERM = "NodeAffinity: {addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [%s]}}}"
ONE = "{maxSkew: 1, topologyKey: %s, whenUnsatisfiable: %s}"


def read(*arguments: str) -> SchedulerConfig:
    configs = []
    for argument in arguments:
        name, _, args = argument.partition(": ")
        configs.append(f"{{name: {name}, args: {args}}}")
    return parse_config(f"{HEAD}profiles: [{{pluginConfig: [{', '.join(configs)}]}}]\n".encode(), "f.yaml")


def refused(*arguments: str) -> str:
    with pytest.raises(InvalidInput) as error:
        read(*arguments)
    return str(error.value).removeprefix("f.yaml: profiles[0].pluginConfig[").partition("].")[2]


@pytest.mark.parametrize(
    "argument",
    [
        "InterPodAffinity: {hardPodAffinityWeight: 0}",
        "InterPodAffinity: {hardPodAffinityWeight: 100}",
        "NodeResourcesFit: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}",
        "NodeResourcesFit: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 100}]}}",
        "NodeResourcesFit: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu}]}}",
        "NodeResourcesFit: {ignoredResources: [a/b], ignoredResourceGroups: [a]}",
        SHAPE % "{utilization: 0, score: 0}, {utilization: 100, score: 10}",
        "NodeResourcesBalancedAllocation: {resources: [{name: cpu}, {name: memory, weight: 1}]}",
        "NodeResourcesBalancedAllocation: {resources: [{name: cpu, weight: 0}]}",
        "DefaultPreemption: {minCandidateNodesPercentage: 0}",
        "DefaultPreemption: {minCandidateNodesPercentage: 100, minCandidateNodesAbsolute: 0}",
        "VolumeBinding: {bindTimeoutSeconds: 0}",
        "DynamicResources: {filterTimeout: 10s, bindingTimeout: 1m}",
        "PodTopologySpread: {defaultingType: System}",
        SPREAD % (ONE % ("a", "DoNotSchedule") + ", " + ONE % ("a", "ScheduleAnyway")),
        SPREAD % "",
        TERM % "{matchExpressions: [{key: a, operator: Exists}]}",
        "NodeAffinity: {addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: null}}",
        "NodeResourcesFit: {kind: NodeResourcesFitArgs, apiVersion: kubescheduler.config.k8s.io/v1}",
    ],
)
def test_values_at_their_bounds_are_taken(argument: str) -> None:
    assert read(argument).profiles


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ("InterPodAffinity: {hardPodAffinityWeight: -1}", "args.hardPodAffinityWeight: -1: expected 0 to 100"),
        (
            "NodeResourcesFit: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: -1}]}}",
            "args.scoringStrategy.resources[0].weight: -1: expected 1 to 100",
        ),
        (
            "NodeResourcesFit: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu}, {name: ''}]}}",
            "args.scoringStrategy.resources[1].name: ",
        ),
        (
            "NodeResourcesFit: {scoringStrategy: {type: LeastAllocated, requestedToCapacityRatio: {shape: []}}}",
            "args.scoringStrategy.requestedToCapacityRatio: set: expected nothing with type LeastAllocated",
        ),
        ("NodeResourcesFit: {ignoredResourceGroups: ['']}", "args.ignoredResourceGroups[0]: "),
        ("NodeResourcesFit: {ignoredResources: [a, /]}", "args.ignoredResources[1]: /"),
        ("NodeResourcesFit: {apiVersion: v1}", "args.apiVersion: v1"),
        (SHAPE % "", "args.scoringStrategy.requestedToCapacityRatio.shape: empty: expected at least one point"),
        (SHAPE % "{utilization: -1, score: 0}", "args.scoringStrategy.requestedToCapacityRatio.shape[0].utilization"),
        (SHAPE % "{utilization: 101, score: 0}", "args.scoringStrategy.requestedToCapacityRatio.shape[0].utilization"),
        (SHAPE % "{utilization: 1, score: 11}", "args.scoringStrategy.requestedToCapacityRatio.shape[0].score: 11"),
        (SHAPE % "{utilization: 1, score: -1}", "args.scoringStrategy.requestedToCapacityRatio.shape[0].score: -1"),
        (
            SHAPE % "{utilization: 5, score: 1}, {utilization: 4, score: 2}",
            "args.scoringStrategy.requestedToCapacityRatio.shape[1].utilization: 4",
        ),
        ("NodeResourcesBalancedAllocation: {resources: [{name: cpu}, {name: cpu}]}", "args.resources[1].name: cpu"),
        ("DefaultPreemption: {minCandidateNodesPercentage: 101}", "args.minCandidateNodesPercentage: 101"),
        ("DefaultPreemption: {minCandidateNodesPercentage: -1}", "args.minCandidateNodesPercentage: -1"),
        ("DefaultPreemption: {minCandidateNodesAbsolute: -1}", "args.minCandidateNodesAbsolute: -1"),
        ("DynamicResources: {filterTimeout: soon}", "args.filterTimeout: soon"),
        ("DynamicResources: {bindingTimeout: soon}", "args.bindingTimeout: soon"),
        ("PodTopologySpread: {defaultingType: All}", "args.defaultingType: All: expected System or List"),
        (
            SPREAD % (ONE % ("a", "DoNotSchedule") + ", " + ONE % ("a", "DoNotSchedule")),
            "args.defaultConstraints[1]: a, DoNotSchedule",
        ),
        (SPREAD % (ONE % ("a", "DoNotSchedule") + ", " + ONE % ("b", "Never")), "args.defaultConstraints[1]"),
        (
            TERM % "{matchExpressionz: [{key: a, operator: Exists}]}",
            "args.addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressionz: "
            "unknown",
        ),
        (
            TERM % "{matchExpressions: [{key: a, operator: Exists}]}, {matchExpressions: [{key: a, operators: In}]}",
            "args.addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[1]",
        ),
    ],
)
def test_values_beyond_them_are_refused_by_field(argument: str, said: str) -> None:
    assert refused(argument).startswith(said)


def test_a_plugin_is_configured_once_and_an_unknown_one_is_said() -> None:
    volumes = "VolumeBinding: {}"
    assert refused(volumes, volumes) == "name: VolumeBinding: expected each plugin once"
    found = {one.path: one.verdict for one in read("Coffee: {}").settings}
    assert found["profiles[0].pluginConfig[0] (Coffee)"] is SettingVerdict.NOT_SUPPORTED


def test_what_is_written_is_what_counts() -> None:
    found = read(
        "NodeResourcesFit: {ignoredResources: [a/b], ignoredResourceGroups: [c]}",
        SPREAD % (ONE % ("a", "DoNotSchedule") + ", " + ONE % ("b", "DoNotSchedule")),
        "VolumeBinding: {bindTimeoutSeconds: 7}",
        "InterPodAffinity: {hardPodAffinityWeight: 5}",
    )
    (named,) = found.profiles.values()
    assert found.volumes_within_s == 7.0
    assert named.profile.kube is not None
    assert named.profile.kube.hard_pod_affinity_weight == 5
    assert [one.topology_key for one in named.pods.constraints] == ["a", "b"]
    assert not named.pods.spread_replicas
