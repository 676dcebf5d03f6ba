"""Reading a KubeSchedulerConfiguration: each setting has a verdict, and bad input names its field."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from cotenant.cli.main import main
from cotenant.model.cluster.affinity import WhenUnsatisfiable
from cotenant.model.errors import InvalidInput
from cotenant.policy.placement.kube_scoring import FitStrategy, KubeScoring, ScoreWeights
from cotenant.services.scheduler_config.configuration_file import SchedulerConfig, parse_config
from cotenant.services.scheduler_config.settings import SettingVerdict

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def read(text: str = "") -> SchedulerConfig:
    return parse_config((HEAD + dedent(text)).encode(), "f.yaml")


def refused(text: str, head: str = HEAD) -> str:
    with pytest.raises(InvalidInput) as error:
        parse_config((head + dedent(text)).encode(), "f.yaml")
    return str(error.value)


def weights(plugins: str) -> ScoreWeights:
    (named,) = read(f"profiles: [{{plugins: {plugins}}}]").profiles.values()
    assert named.profile.kube is not None
    return named.profile.kube.weights


def test_an_empty_configuration_is_kube_schedulers_own() -> None:
    found = read()
    (name,) = found.profiles
    named = found.profiles[name]
    assert name == "default-scheduler"
    assert named.profile.kube == KubeScoring()
    assert (named.pods.spread_replicas, named.pods.scored_by, named.pods.preempts) == (True, "", True)
    assert (found.settings, found.extenders, found.volumes_within_s) == ((), (), None)
    assert (found.backoff.first_s, found.backoff.max_s) == (1.0, 10.0)


@pytest.mark.parametrize(
    ("plugins", "expected"),
    [
        ("{score: {disabled: [{name: ImageLocality}]}}", ScoreWeights(images=0)),
        ("{score: {disabled: [{name: '*'}]}}", ScoreWeights(0, 0, 0, 0, 0, 0, 0)),
        (
            "{score: {disabled: [{name: '*'}], enabled: [{name: NodeAffinity, weight: 7}]}}",
            ScoreWeights(0, 0, 0, 7, 0, 0, 0),
        ),
        ("{score: {enabled: [{name: TaintToleration}]}}", ScoreWeights(taints=1)),  # without a weight it is 1, not 3
        ("{multiPoint: {enabled: [{name: PodTopologySpread, weight: 9}]}}", ScoreWeights(spread=9)),
        ("{multiPoint: {disabled: [{name: InterPodAffinity}]}}", ScoreWeights(pod_affinity=0)),
        (
            "{multiPoint: {enabled: [{name: NodeResourcesFit, weight: 4}]}, score: {enabled: [{name: NodeResourcesFit, "
            "weight: 8}]}}",
            ScoreWeights(fit=8),
        ),
        (
            "{multiPoint: {disabled: [{name: '*'}], enabled: [{name: NodeResourcesFit, weight: 2}]}}",
            ScoreWeights(2, 0, 0, 0, 0, 0, 0),
        ),
    ],
)
def test_weights_follow_upstreams_merging(plugins: str, expected: ScoreWeights) -> None:
    assert weights(plugins) == expected


def test_preemption_can_be_left_out() -> None:
    for plugins in (
        "{postFilter: {disabled: [{name: DefaultPreemption}]}}",
        "{postFilter: {disabled: [{name: '*'}]}}",
        "{multiPoint: {disabled: [{name: DefaultPreemption}]}}",
    ):
        (named,) = read(f"profiles: [{{plugins: {plugins}}}]").profiles.values()
        assert not named.pods.preempts


def test_arguments_become_scores_and_what_pods_have() -> None:
    found = read(
        """
        profiles:
        - schedulerName: one
          percentageOfNodesToScore: 30
          pluginConfig:
          - name: NodeResourcesFit
            args:
              ignoredResources: [example.com/seat]
              ignoredResourceGroups: [other.org]
              scoringStrategy:
                type: RequestedToCapacityRatio
                resources: [{name: cpu, weight: 3}, {name: nvidia.com/gpu}]
                requestedToCapacityRatio: {shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]}
          - {name: NodeResourcesBalancedAllocation, args: {resources: [{name: cpu, weight: 1}]}}
          - {name: InterPodAffinity, args: {hardPodAffinityWeight: 5, ignorePreferredTermsOfExistingPods: true}}
          - {name: VolumeBinding, args: {bindTimeoutSeconds: 60}}
          - name: PodTopologySpread
            args:
              defaultingType: List
              defaultConstraints:
              - {maxSkew: 2, topologyKey: rack, whenUnsatisfiable: DoNotSchedule}
              - {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}
        - schedulerName: two
        percentageOfNodesToScore: 60
        """
    )
    one, two = found.profiles["one"], found.profiles["two"]
    assert one.profile.kube == KubeScoring(
        ScoreWeights(),
        FitStrategy.REQUESTED_TO_CAPACITY_RATIO,
        (("cpu", 3), ("nvidia.com/gpu", 1)),
        ((0, 0), (100, 10)),
        ("cpu",),
        5,
        True,
    )
    assert (one.profile.sample_pct, two.profile.sample_pct) == (30, 60)
    assert (one.pods.scored_by, two.pods.scored_by) == ("", two.profile.name)
    assert found.volumes_within_s == 60.0
    assert not one.pods.spread_replicas
    assert two.pods.spread_replicas
    assert [constraint.when_unsatisfiable for constraint in one.pods.constraints] == list(WhenUnsatisfiable)
    assert one.pods.ignored.names == {"example.com/seat"}
    assert one.pods.ignored.groups == {"other.org"}
    assert {setting.verdict for setting in found.settings} == {SettingVerdict.HONOURED}


def test_what_is_not_honoured_has_its_path_and_its_reason() -> None:
    found = read(
        """
        parallelism: 4
        enableProfiling: true
        delayCacheUntilActive: true
        leaderElection: {resourceName: mine}
        profiles:
        - plugins:
            filter: {disabled: [{name: NodePorts}, {name: NodeResourcesFit}]}
            score: {enabled: [{name: Fancy}, {name: VolumeBinding}]}
            queueSort: {enabled: [{name: Coscheduling}]}
          pluginConfig:
          - {name: Fancy, args: {anything: [1]}}
          - {name: DefaultPreemption, args: {minCandidateNodesAbsolute: 5}}
          - {name: DynamicResources, args: {filterTimeout: 5s}}
        """
    )
    verdicts = {setting.path: setting.verdict for setting in found.settings}
    no, beside = SettingVerdict.NOT_SUPPORTED, SettingVerdict.IRRELEVANT
    assert verdicts == {
        "parallelism": beside,
        "enableProfiling": beside,
        "delayCacheUntilActive": no,
        "leaderElection.resourceName": no,
        "profiles[0].plugins.filter.disabled[0] (NodePorts)": SettingVerdict.HONOURED,
        "profiles[0].plugins.filter.disabled[1] (NodeResourcesFit)": no,
        "profiles[0].plugins.score.enabled[0] (Fancy)": no,
        "profiles[0].plugins.score.enabled[1] (VolumeBinding)": no,
        "profiles[0].plugins.queueSort.enabled[0] (Coscheduling)": beside,
        "profiles[0].pluginConfig[0] (Fancy)": no,
        "profiles[0].pluginConfig[1].args.minCandidateNodesAbsolute": beside,
        "profiles[0].pluginConfig[2].args.filterTimeout": no,
    }
    assert all(setting.why or setting.verdict is SettingVerdict.HONOURED for setting in found.settings)


def test_what_is_said_of_the_api_server_and_the_lease() -> None:
    found = read(
        """
        clientConnection: {qps: -1, burst: 7, kubeconfig: /k, contentType: application/json}
        leaderElection: {leaderElect: false, leaseDuration: 1m, renewDeadline: 40s, retryPeriod: 5s,
                         resourceLock: leases, resourceNamespace: system}
        """
    ).connection
    assert (found.qps, found.burst, found.kubeconfig) == (float("inf"), 7.0, Path("/k"))
    assert (found.leader_elect, found.lease_s, found.renew_deadline_s, found.retry_s) == (False, 60.0, 40.0, 5.0)
    assert found.lease_namespace == "system"


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("profile: []", "profile: unknown"),
        ("profiles: {}", "profiles: not usable"),
        ("parallelism: x", "parallelism: not usable"),
        ("parallelism: 0", "parallelism: 0"),
        ("podInitialBackoffSeconds: 0", "podInitialBackoffSeconds: 0"),
        ("podInitialBackoffSeconds: 20", "podMaxBackoffSeconds: 10"),
        ("percentageOfNodesToScore: 101", "percentageOfNodesToScore: 101"),
        ("profiles: [{schedulerName: a}, {schedulerName: a}]", "profiles[1].schedulerName: a"),
        ("profiles: [{schedulerName: a}, {}]", "profiles[1].schedulerName"),
        ("profiles: [{plugin: {}}]", "profiles[0].plugin: unknown"),
        ("profiles: [{plugins: {scores: {}}}]", "profiles[0].plugins.scores: unknown"),
        ("profiles: [{plugins: {score: {enabled: [{nam: x}]}}}]", "profiles[0].plugins.score.enabled[0]"),
        (
            "profiles: [{plugins: {filter: {enabled: [{name: EBSLimits}]}}}]",
            "plugins.filter.enabled[0].name: EBSLimits",
        ),
        ("profiles: [{pluginConfig: [{name: A}, {name: A}]}]", "profiles[0].pluginConfig[1].name: A"),
        (
            "profiles: [{schedulerName: a}, {schedulerName: b, plugins: {queueSort: {enabled: [{name: X}]}}}]",
            "profiles[1].plugins.queueSort",
        ),
        ("parallelism: 1\nparallelism: 2", "parallelism stands twice in one mapping, in lines 3 and 4"),
        ("leaderElection: {leaseDuration: 5}", "leaderElection.leaseDuration"),
        ("leaderElection: {leaseDuration: five}", "leaderElection.leaseDuration: five"),
        ("leaderElection: {resourceLock: endpoints}", "leaderElection.resourceLock: endpoints"),
        ("extenders: [{urlPrefix: ftp://x}]", "extenders[0].urlPrefix: ftp://x"),
        ("extenders: [{urlPrefix: http://x, prioritizeVerb: p}]", "extenders[0].weight: 0"),
        (
            "extenders: [{urlPrefix: http://x, bindVerb: b}, {urlPrefix: http://y, bindVerb: b}]",
            "extenders[1].bindVerb: b",
        ),
        (
            "extenders: [{urlPrefix: http://x, managedResources: [{name: cpu}]}]",
            "extenders[0].managedResources[0].name",
        ),
        ("extenders: [{urlPrefix: https://x, tlsConfig: {caData: '*'}}]", "extenders[0].tlsConfig.caData"),
        ("extenders: [{urlPrefix: https://x, tlsConfig: {caFile: /no/such}}]", "extenders[0].tlsConfig.caFile"),
    ],
)
def test_bad_input_names_its_field(text: str, field: str) -> None:
    said = refused(text)
    assert said.startswith("f.yaml: ")
    assert field in said
    assert "\n" not in said


@pytest.mark.parametrize(
    ("name", "args", "field"),
    [
        ("NodeResourcesFit", "{scoringStrategy: {type: Most}}", "scoringStrategy.type: Most"),
        ("NodeResourcesFit", "{scoringStrategi: {}}", "scoringStrategi: unknown"),
        ("NodeResourcesFit", "{kind: NodeAffinityArgs}", "kind: NodeAffinityArgs"),
        ("NodeResourcesFit", "{ignoredResourceGroups: [a/b]}", "ignoredResourceGroups[0]: a/b"),
        (
            "NodeResourcesFit",
            "{scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 101}]}}",
            "scoringStrategy.resources[0].weight: 101",
        ),
        (
            "NodeResourcesFit",
            "{scoringStrategy: {type: RequestedToCapacityRatio}}",
            "requestedToCapacityRatio: missing",
        ),
        (
            "NodeResourcesFit",
            "{scoringStrategy: {type: RequestedToCapacityRatio, requestedToCapacityRatio: {shape: "
            "[{utilization: 5, score: 1}, {utilization: 5, score: 2}]}}}",
            "shape[1].utilization: 5",
        ),
        ("NodeResourcesBalancedAllocation", "{resources: [{name: cpu, weight: 2}]}", "resources[0].weight: 2"),
        ("InterPodAffinity", "{hardPodAffinityWeight: 101}", "hardPodAffinityWeight: 101"),
        ("PodTopologySpread", "{defaultConstraints: [{maxSkew: 1}]}", "defaultingType: System"),
        (
            "PodTopologySpread",
            "{defaultingType: List, defaultConstraints: [{maxSkew: 0, topologyKey: a, "
            "whenUnsatisfiable: DoNotSchedule}]}",
            "defaultConstraints[0].maxSkew: 0",
        ),
        (
            "PodTopologySpread",
            "{defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: a, "
            "whenUnsatisfiable: DoNotSchedule, "
            "labelSelector: {}}]}",
            "defaultConstraints[0].labelSelector",
        ),
        ("NodeAffinity", "{addedAffinity: {required: {}, prefered: [1]}}", "addedAffinity.prefered: unknown"),
        ("VolumeBinding", "{bindTimeoutSeconds: -1}", "bindTimeoutSeconds: -1"),
        ("DefaultPreemption", "{minCandidateNodesPercentage: 0, minCandidateNodesAbsolute: 0}", "minCandidateNodes"),
    ],
)
def test_bad_arguments_name_their_field(name: str, args: str, field: str) -> None:
    said = refused(f"profiles: [{{pluginConfig: [{{name: {name}, args: {args}}}]}}]")
    assert said.startswith("f.yaml: profiles[0].pluginConfig[0].args.")
    assert field in said


@pytest.mark.parametrize(
    ("head", "field"),
    [
        ("apiVersion: v1\nkind: ConfigMap\n", "f.yaml: apiVersion: v1: "),
        ("apiVersion: kubescheduler.config.k8s.io/v1\nkind: Config\n", "f.yaml: kind: Config: "),
        ("kind: KubeSchedulerConfiguration\n", "f.yaml: apiVersion: "),
        ("[1]\n", "f.yaml: document: list: "),
        ("a: [\n", "f.yaml: "),
        ("a: &a [*a]\n", "f.yaml: line 1 is part of itself"),
        (
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles: &a [*a]\n",
            "f.yaml: ",
        ),
        ("", "f.yaml: document: NoneType"),
    ],
)
def test_other_documents_are_refused(head: str, field: str) -> None:
    assert refused("", head).startswith(field)


def test_a_beta_is_refused_with_a_sentence() -> None:
    said = refused("", "apiVersion: kubescheduler.config.k8s.io/v1beta3\nkind: KubeSchedulerConfiguration\n")
    assert "Kubernetes 1.29 removed the last beta" in said


def test_options_that_the_file_replaces_are_refused_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(HEAD)
    assert main(["scheduler", "--config", str(file), "--profile", "founding"]) == 2
    assert capsys.readouterr().err.startswith("cotenant: --profile: founding: expected no such option beside --config")
    assert main(["scheduler", "--config", str(tmp_path / "none")]) == 2
    assert capsys.readouterr().err.startswith("cotenant: --config: ")


def test_a_configuration_is_linted_with_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(HEAD + "parallelism: 3\nleaderElection:\n  resourceName: x\n")
    assert main(["lint", str(file)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith(f"{file}:5: warning: ")
    assert said[1].startswith(f"{file}:3: note: ")
    file.write_text(HEAD + "parallelism: 0\n")
    assert main(["lint", str(file)]) == 1
    assert capsys.readouterr().out.startswith(f"{file}:3: refused: ")


@pytest.mark.parametrize(
    ("plugins", "expected"),
    [
        ("{}", set()),
        ("{filter: {disabled: [{name: NodePorts}, {name: TaintToleration}]}}", {"NodePorts", "TaintToleration"}),
        ("{preFilter: {disabled: [{name: NodePorts}]}}", set()),
        ("{filter: {disabled: [{name: NodeAffinity}]}}", {"NodeAffinity"}),
        ("{multiPoint: {disabled: [{name: NodeAffinity}]}}", {"NodeAffinity", "NodeAffinity by name"}),
        ("{multiPoint: {disabled: [{name: NodePorts}]}, filter: {enabled: [{name: NodePorts}]}}", set()),
        ("{filter: {disabled: [{name: NodeResourcesFit}, {name: VolumeBinding}, {name: DynamicResources}]}}", set()),
    ],
)
def test_filters_are_left_out_as_the_sets_together_say(plugins: str, expected: set[str]) -> None:
    (named,) = read(f"profiles: [{{plugins: {plugins}}}]").profiles.values()
    assert named.pods.unfiltered == expected


def test_a_filter_that_stays_says_why() -> None:
    found = read("profiles: [{plugins: {filter: {disabled: [{name: '*'}]}, preFilter: {disabled: [{name: '*'}]}}}]")
    stays = {setting.path.partition("(")[2][:-1]: setting.why for setting in found.settings if setting.why}
    assert stays == {
        "NodeResourcesFit": "its filter stays: no node is filled beyond what it has",
        "VolumeBinding": "its filter stays: a pod is not bound before its volumes",
        "DynamicResources": "claims are allocated by the scheduler that binds their pod",
        "NodeName": "a pod that names its node is not scheduled",
    }
