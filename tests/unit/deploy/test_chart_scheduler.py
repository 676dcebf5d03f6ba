"""A kube-scheduler's configuration as a value of the chart. Needs helm; skipped where there is none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.unit.deploy.chart import SHADOW, helm_only, objects, pod, refusal

from cotenant.services.migrate.installed import Installed
from cotenant.services.migrate.koordinator_pieces import judge
from cotenant.services.migrate.setup import files
from cotenant.services.scheduler.scheduler_arguments import SchedulerArguments, names_of
from cotenant.services.scheduler_config.configuration_file import read_config

WRITTEN: dict[str, Any] = {
    "profiles": [{"schedulerName": "first"}, {"schedulerName": "second"}],
    "extenders": [
        {"urlPrefix": "http://quota.tools:8080/x", "filterVerb": "filter"},
        {"urlPrefix": "https://licence.tools/y", "prioritizeVerb": "rank", "weight": 1},
    ],
}


def _given(folder: Path, written: dict[str, Any]) -> str:
    file = folder / "values.json"
    file.write_text(json.dumps({"scheduler": {"config": written}, "networkPolicy": {"enabled": True}}))
    return f"--values={file}"


@helm_only
def test_a_configuration_takes_the_place_of_names_and_profile(tmp_path: Path) -> None:
    values = _given(tmp_path, WRITTEN)
    (container,) = pod("Deployment", "cotenant-system", "cotenant-scheduler", values)["containers"]
    assert "--config=/etc/cotenant/config/scheduler.yaml" in container["args"]
    assert not [option for option in container["args"] if option.startswith(("--profile", "--scheduler-name"))]
    text = objects(values)["ConfigMap", "cotenant-system", "cotenant-scheduler"]["data"]["scheduler.yaml"]
    file = tmp_path / "scheduler.yaml"
    file.write_text(text)
    assert list(read_config(file).profiles) == ["first", "second"]


@helm_only
def test_rights_and_network_follow_the_configuration(tmp_path: Path) -> None:
    made = objects(_given(tmp_path, WRITTEN))
    rules = [rule for (kind, _, _), written in made.items() if kind == "Role" for rule in written["rules"]]
    assert ["first-scheduler"] in [rule.get("resourceNames") for rule in rules]
    egress = made["NetworkPolicy", "cotenant-system", "cotenant-scheduler"]["spec"]["egress"]
    assert {"ports": [{"port": 8080}]} in egress
    assert {"ports": [{"port": 443}]} in egress


@helm_only
def test_the_shadow_has_no_right_but_to_read_and_is_part_of_the_first_week() -> None:
    made = objects(SHADOW)
    role = made["ClusterRole", "", "cotenant-shadow"]
    assert {verb for rule in role["rules"] for verb in rule["verbs"]} == {"list", "watch"}
    assert not [name for kind, _, name in made if kind in ("Role", "RoleBinding") and name == "cotenant-shadow"]
    (container,) = pod("Deployment", "cotenant-system", "cotenant-shadow", SHADOW)["containers"]
    assert container["args"][:3] == ["scheduler", "--shadow", "--shadow-of=default-scheduler"]
    assert ("Deployment", "cotenant-system", "cotenant-shadow") not in objects()
    request = SchedulerArguments(shadow=True, shadow_of=("default-scheduler",), shadow_cpu_share_pct=50.0)
    assert names_of(request) == (("default-scheduler",), "--shadow-of")


@helm_only
def test_values_of_a_migration_are_values_of_the_chart(tmp_path: Path) -> None:
    pod_of_theirs = {"apiVersion": "v1", "kind": "Pod", "spec": {"schedulerName": "koord-scheduler"}}
    for name, text in files(judge(Installed((pod_of_theirs,)))).items():
        (tmp_path / name).write_text(text)
    week = objects(SHADOW, f"--values={tmp_path / 'values-shadow.yaml'}")
    (container,) = week["Deployment", "cotenant-system", "cotenant-shadow"]["spec"]["template"]["spec"]["containers"]
    assert "--shadow-of=koord-scheduler" in container["args"]
    (container,) = pod("Deployment", "cotenant-system", "cotenant-scheduler", f"--values={tmp_path / 'values.yaml'}")[
        "containers"
    ]
    assert "--scheduler-name=koord-scheduler" in container["args"]


@helm_only
@pytest.mark.parametrize("wrong", ["shadow.cpuSharePercent=0", "shadow.schedulerNames=x", "shadow.bind=true"])
def test_values_of_the_shadow_are_checked(wrong: str) -> None:
    assert "shadow" in refusal(SHADOW, f"--set={wrong}")


@helm_only
def test_without_one_there_is_none() -> None:
    assert ("ConfigMap", "cotenant-system", "cotenant-scheduler") not in objects()


@helm_only
@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("scheduler.config.leaderElection.resourceNamespace=other", "resourceNamespace other"),
        ("scheduler.config.kind=DeschedulerConfiguration", "KubeSchedulerConfiguration"),
    ],
)
def test_what_cannot_be_honoured_is_refused(option: str, said: str) -> None:
    assert said in refusal(f"--set={option}")
