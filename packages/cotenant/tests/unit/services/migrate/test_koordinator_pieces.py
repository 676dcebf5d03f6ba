"""An installed Koordinator, judged piece by piece: nothing is dropped, and what is bad is named."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.few import examples

import cotenant
from cotenant.model.errors import InvalidInput
from cotenant.services.migrate.installed import Installed, from_files, read_objects
from cotenant.services.migrate.koordinator_pieces import JudgedInstallation, MigrationPiece, judge
from cotenant.services.migrate.protocol import CONFIG_KEYS, KINDS, LABELS, PLUGINS, MigrationVerdict
from cotenant.services.migrate.setup import files
from cotenant.services.scheduling.load_aware import parse_settings

SCHEDULER = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: true}
profiles:
  - schedulerName: koord-scheduler
    plugins:
      filter: {enabled: [{name: LoadAwareScheduling}, {name: NodeNUMAResource}, {name: HomeGrown}]}
    pluginConfig:
      - name: LoadAwareScheduling
        args:
          apiVersion: kubescheduler.config.k8s.io/v1
          kind: LoadAwareSchedulingArgs
          usageThresholds: {cpu: 65, memory: 95}
          prodUsageThresholds: {cpu: 900}
          supportedResources: [cpu]
      - name: ElasticQuota
        args: {delayEvictTime: 120s, monitorAllQuotas: false, quotaGroupNamespace: koordinator-system}
      - name: DeviceShare
        args: {scoringStrategy: {type: MostAllocated}}
"""


def config_map(name: str, data: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def judged(*objects: dict[str, Any]) -> JudgedInstallation:
    return judge(Installed(objects))


def piece(found: JudgedInstallation, what: str) -> MigrationPiece:
    return next(one for one in found.pieces if one.what == what)


def test_a_scheduler_configuration_becomes_names_options_and_a_load_aware_file() -> None:
    found = judged(config_map("koord-scheduler-config", {"koord-scheduler-config": SCHEDULER}))
    assert found.scheduler_names == ("koord-scheduler",)
    assert set(found.options) == {"--quota-revoke-after-s=120", "--no-quota-revoke", "--device-strategy=binpack"}
    assert piece(found, "plugin HomeGrown (filter)").verdict is MigrationVerdict.UNKNOWN
    assert piece(found, "plugin NodeNUMAResource (filter)").verdict is MigrationVerdict.SUPPORTED
    bad = piece(found, "LoadAwareScheduling.prodUsageThresholds")
    assert bad.verdict is MigrationVerdict.NOT_SUPPORTED
    assert "900" in bad.words
    assert piece(found, "LoadAwareScheduling.supportedResources").verdict is MigrationVerdict.NOT_SUPPORTED
    assert piece(found, "ElasticQuota.quotaGroupNamespace").verdict is MigrationVerdict.NOT_SUPPORTED
    made = files(found)
    assert parse_settings(made["load-aware.yaml"].encode(), "f").thresholds is not None
    values = yaml.safe_load(made["values.yaml"])
    assert values["scheduler"]["names"] == ["koord-scheduler"]
    assert "replicas=0" in made["STEPS.md"]
    assert max(map(len, made["STEPS.md"].splitlines())) <= 120


def test_the_options_are_those_of_the_scheduler() -> None:
    text = Path(cotenant.__file__).parent / "services/scheduler/scheduler_arguments.py"
    written = text.read_text()
    for name in ("quota_revoke_after_s", "quota_revoke", "quota_check_parents", "device_strategy", "load_aware"):
        assert f"    {name}: Annotated[" in written


def test_the_managers_configmap_is_judged_key_by_key() -> None:
    data = {
        "colocation-config": '{"enable": true, "cpuReclaimThresholdPercent": 60}',
        "resource-threshold-config": '{"clusterStrategy": {"enable": true, "cpuSuppressThresholdPercent": 650}}',
        "cpu-burst-config": "{not json",
        "of-the-vendor-config": "{}",
    }
    found = judged(config_map("slo-controller-config", data))
    assert piece(found, "slo-controller-config: colocation-config").verdict is MigrationVerdict.DIFFERS
    threshold = piece(found, "slo-controller-config: resource-threshold-config")
    assert threshold.verdict is MigrationVerdict.NOT_SUPPORTED
    assert "650" in threshold.words
    assert piece(found, "slo-controller-config: cpu-burst-config").verdict is MigrationVerdict.NOT_SUPPORTED
    assert piece(found, "slo-controller-config: of-the-vendor-config").verdict is MigrationVerdict.UNKNOWN
    assert set(found.manager_config) == {"colocation-config"}


def test_names_in_use_are_counted_and_unknown_ones_named() -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "x",
            "labels": {"koordinator.sh/qosClass": "BE", "app": "x", "scheduling.koordinator.sh/of-tomorrow": "1"},
            "annotations": {"gang.scheduling.koordinator.sh/network-topology-index": "0"},
        },
        "spec": {"schedulerName": "koord-scheduler"},
    }
    found = judged(pod, {**pod, "metadata": {**pod["metadata"], "name": "y"}})  # type: ignore[dict-item]
    assert piece(found, "koordinator.sh/qosClass").found == 2
    assert piece(found, "scheduling.koordinator.sh/of-tomorrow").verdict is MigrationVerdict.UNKNOWN
    assert (
        piece(found, "gang.scheduling.koordinator.sh/network-topology-index").verdict is MigrationVerdict.NOT_SUPPORTED
    )
    assert found.scheduler_names == ("koord-scheduler",)
    assert len(found.pieces) == 3


def test_kinds_of_a_later_version_are_unknown_and_others_are_left_alone() -> None:
    found = judged(
        {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeSLO", "metadata": {"name": "a"}},
        {"apiVersion": "new.koordinator.sh/v1", "kind": "Marvel", "metadata": {"name": "a"}},
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}},
    )
    assert [(one.what, one.verdict) for one in found.pieces] == [
        ("NodeSLO objects", MigrationVerdict.SUPPORTED),
        ("Marvel objects (new.koordinator.sh)", MigrationVerdict.UNKNOWN),
    ]


def test_a_name_that_is_supported_is_read_somewhere() -> None:
    """By the last part of the name: constants are put together from prefixes."""
    source = Path(cotenant.__file__).parent
    texts = "\n".join(
        path.read_text() for path in source.rglob("*.py") if path.parts[-2:] != ("migrate", "protocol.py")
    )
    missing = [
        name
        for name, known in LABELS.items()
        if known.verdict is MigrationVerdict.SUPPORTED and name.split("/")[1] not in texts
    ]
    assert missing == []


def test_a_configuration_is_found_under_whatever_name_it_was_installed() -> None:
    scheduler = "apiVersion: v1\nkind: KubeSchedulerConfiguration\nprofiles: [{schedulerName: koord-scheduler}]\n"
    found = judged(config_map("scheduler-config", {"koord-scheduler-config": scheduler, "other": "a: 1"}))
    assert found.scheduler_names == ("koord-scheduler",)
    descheduler = "kind: DeschedulerConfiguration\n"
    found = judged(config_map("rebalancing", {"koord-descheduler-config": descheduler}))
    assert found.descheduler == descheduler
    assert judged(config_map("of-somebody", {"a": "kind: Pod", "b": "text"})).pieces == ()


def test_a_label_that_a_profile_selects_by_is_its_owners() -> None:
    profile = {
        "apiVersion": "config.koordinator.sh/v1alpha1",
        "kind": "ClusterColocationProfile",
        "metadata": {"name": "spark"},
        "spec": {
            "namespaceSelector": {"matchLabels": {"koordinator.sh/enable-colocation": "true"}},
            "selector": {"matchExpressions": [{"key": "koordinator.sh/spark", "operator": "Exists"}]},
        },
    }
    labels = {"koordinator.sh/enable-colocation": "true", "koordinator.sh/spark": "", "koordinator.sh/else": ""}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "demo", "labels": labels}}
    found = judged(namespace, profile)
    assert {piece(found, name).verdict for name in list(labels)[:2]} == {MigrationVerdict.SUPPORTED}
    assert piece(found, "koordinator.sh/else").verdict is MigrationVerdict.UNKNOWN


def test_every_page_of_the_guide_is_there() -> None:
    guide = Path(__file__).parents[6] / "docs/guide"
    for known in (*LABELS.values(), *PLUGINS.values(), *KINDS.values(), *CONFIG_KEYS.values()):
        assert (guide / known.guide).is_file(), known


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"{", "YAML or JSON"),
        (b"- a", "an object"),
        (b"kind: Pod", "apiVersion"),
        (b"{apiVersion: v1, kind: 3}", "kind"),
        (b"{apiVersion: v1, kind: List, items: [x]}", "items[0]"),
    ],
)
def test_a_bad_file_is_one_line_with_the_place(text: bytes, said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_objects(text, "all.yaml")
    assert said in str(refused.value)
    assert str(refused.value).startswith("all.yaml")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"nothing\.yaml"):
        from_files((tmp_path / "nothing.yaml",))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
ARGUMENTS = st.sampled_from(["usageThresholds", "aggregated", "delayEvictTime"])
CONFIGS = st.fixed_dictionaries(
    {"kind": st.just("KubeSchedulerConfiguration"), "apiVersion": st.just("kubescheduler.config.k8s.io/v1")},
    optional={
        "profiles": st.lists(
            st.fixed_dictionaries(
                {},
                optional={
                    "schedulerName": VALUES,
                    "plugins": VALUES | st.fixed_dictionaries({"filter": VALUES}),
                    "pluginConfig": st.lists(
                        st.fixed_dictionaries(
                            {"name": st.sampled_from([*PLUGINS, "Other"]) | VALUES},
                            optional={
                                "args": VALUES
                                | st.dictionaries(
                                    st.sampled_from(["usageThresholds", "aggregated", "delayEvictTime"]), VALUES
                                )
                            },
                        ),
                        max_size=3,
                    ),
                },
            ),
            max_size=2,
        )
        | VALUES
    },
)


@settings(max_examples=examples(150), deadline=None)
@given(
    config=CONFIGS,
    data=st.dictionaries(st.sampled_from([*CONFIG_KEYS, "other"]), VALUES | st.text(max_size=30), max_size=4),
    metadata=VALUES,
    spec=VALUES,
)
def test_whatever_is_in_the_objects_is_judged_and_never_an_accident(
    config: dict[str, Any], data: dict[str, Any], metadata: object, spec: object
) -> None:
    found = judged(
        config,
        config_map("slo-controller-config", data),
        config_map("koord-scheduler-config", {"x": yaml.safe_dump(config)}),
        {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec},
    )
    assert {key for key in data if f"slo-controller-config: {key}" not in {one.what for one in found.pieces}} == set()
    made = files(found)
    assert yaml.safe_load(made["values.yaml"])


@settings(max_examples=examples(150), deadline=None)
@given(text=st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_whatever_is_in_a_file_is_read_or_refused(text: bytes) -> None:
    with contextlib.suppress(InvalidInput):
        judge(Installed(tuple(read_objects(text, "f"))))
