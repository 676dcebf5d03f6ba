"""Findings of `cotenant lint`, and the lines they name."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent

import pytest

from cotenant.cli.main import main
from cotenant.model.errors import InvalidInput
from cotenant.services.lint.manifest_reading import read_manifests
from cotenant.services.lint.manifest_verdicts import LintFinding, lint

PROFILE = """
apiVersion: config.koordinator.sh/v1alpha1
kind: ClusterColocationProfile
metadata: {name: batch}
spec: {selector: {matchLabels: {kind: batch}}, qosClass: BE, priorityClassName: koord-batch}
"""


def findings(*texts: str) -> list[LintFinding]:
    return lint(read_manifests("f.yaml", "---\n".join(dedent(text) for text in texts).encode()))


def test_a_template_is_judged_and_refused_at_its_line() -> None:
    (found,) = findings(
        """
        apiVersion: apps/v1
        kind: Deployment
        metadata:
          name: web
        spec:
          template:
            metadata:
              labels:
                app: web
                koordinator.sh/qosClass: LSX
            spec:
              containers: [{name: main}]
        """
    )
    assert (found.line, found.level, found.rule) == (11, "refused", "unknown-qos")


def test_a_pod_with_a_profile_is_a_change_with_its_patch() -> None:
    (found,) = findings(
        PROFILE,
        """
        apiVersion: v1
        kind: Pod
        metadata: {name: p, labels: {kind: batch}}
        spec: {containers: [{name: main, resources: {requests: {cpu: 1, memory: 1Gi}}}]}
        """,
    )
    assert (found.level, found.line, found.name) == ("change", 8, "p")
    assert {"op": "remove", "path": "/spec/containers/0/resources/requests/cpu"} in found.patch
    assert "the pod's class is batch" in found.message


@pytest.mark.parametrize("name", ["resource-status", "device-allocated", "reservation-allocated"])
def test_what_the_scheduler_writes_is_refused_in_pods_and_templates(name: str) -> None:
    text = f"""
        metadata:
          name: p
          annotations:
            scheduling.koordinator.sh/{name}: '{{"cpuset":"0-31"}}'
        spec: {{containers: [{{name: main}}]}}
        """
    pod = "apiVersion: v1\nkind: Pod" + dedent(text)
    job = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\nspec:\n  template:" + text
    one, other = findings(pod, job)
    assert (one.level, one.rule, one.line, one.kind) == ("refused", "holdings", 6, "Pod")
    assert (other.level, other.rule, other.line, other.kind) == ("refused", "holdings", 17, "Job")
    assert f"{name} is the scheduler's to write: leave it out" in one.message


def test_priority_classes_that_nobody_defines_are_a_warning() -> None:
    found = findings(
        """
        apiVersion: v1
        kind: Pod
        metadata: {name: p}
        spec:
          priorityClassName: mine
          containers: []
        """,
        PROFILE.replace("koord-batch", "other"),
    )
    assert [(finding.level, finding.line) for finding in found] == [("warning", 6), ("warning", 13)]


def test_a_quota_that_breaks_its_tree() -> None:
    (found, change) = sorted(
        findings(
            """
            apiVersion: scheduling.sigs.k8s.io/v1alpha1
            kind: ElasticQuota
            metadata: {name: a, namespace: n}
            spec:
              max: {cpu: 1}
              min: {cpu: 2}
            """
        ),
        key=lambda finding: finding.level == "change",
    )
    assert (found.level, found.rule, found.line) == ("refused", "min-over-max", 7)
    assert change.rule == "mutate-quota"


def test_a_profile_that_cannot_be_read_names_its_line() -> None:
    (found,) = findings(PROFILE.replace("spec: {", "spec: {probability: often, "))
    assert (found.level, found.rule, found.line) == ("refused", "unreadable", 5)
    (found,) = findings(PROFILE.replace("spec: {", "spec: {patch: {spec: {containers: x}}, "))
    assert "types of a pod's" in found.message


def test_lists_are_taken_apart_and_other_kinds_are_left_alone() -> None:
    assert findings("kind: ConfigMap\napiVersion: v1\nmetadata: {name: c}\n") == []
    (found,) = findings(
        """
        kind: List
        apiVersion: v1
        items:
          - kind: Pod
            apiVersion: v1
            metadata: {name: p, labels: {koordinator.sh/qosClass: BE}}
            spec: {containers: []}
        """
    )
    assert (found.rule, found.line) == ("BE-requires-mid-batch-or-free", 7)


@pytest.mark.parametrize("text", ["a: [", "- 1", "text"])
def test_what_is_not_a_manifest(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"f\.yaml"):
        read_manifests("f.yaml", text.encode())


def test_exit_status_and_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text(PROFILE)
    bad.write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: p, labels: {koordinator.sh/qosClass: BE}}\nspec: {}\n")
    assert main(["lint", str(good)]) == 0
    assert "1 object: 0 refusals" in capsys.readouterr().out
    assert main(["lint", str(good), str(bad)]) == 1
    assert f"{bad}:3: refused: Pod p:" in capsys.readouterr().out
    assert main(["lint", "--json", str(bad)]) == 1
    assert json.loads(capsys.readouterr().out)[0]["line"] == 3
    assert main(["lint", str(tmp_path / "none.yaml")]) == 2
    assert main(["lint"]) == 2


def test_fields_of_the_wrong_type_are_findings() -> None:
    found = findings(
        """
        apiVersion: config.koordinator.sh/v1alpha1
        kind: ClusterColocationProfile
        metadata: {name: batch}
        spec: {priorityClassName: {a: b}}
        """,
        """
        apiVersion: v1
        kind: Pod
        metadata: {name: p, labels: {version: 1}}
        spec: {containers: [{name: main}]}
        """,
    )
    assert [(finding.level, finding.rule) for finding in found] == [("refused", "unreadable")] * 2
    assert "metadata.labels[version]" in found[1].message
