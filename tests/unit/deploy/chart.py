"""What the chart renders, by name. Needs helm; `helm_only` skips a case where there is none."""

from __future__ import annotations

import subprocess
from functools import cache
from typing import Any

import pytest
import yaml
from tests.unit.deploy.objects import Identity, Obj, by_identity
from tools.manifests import CHART, helm, template

helm_only = pytest.mark.skipif(not helm(), reason="no helm: put it on the path, or name it in $HELM")
SHADOW = f"--values={CHART / 'shadow.yaml'}"


@cache
def objects(*arguments: str) -> dict[Identity, Obj]:
    return by_identity([entry for entry in yaml.load_all(template(*arguments), Loader=yaml.CSafeLoader) if entry])


def refusal(*arguments: str) -> str:
    """What is said of values that are refused."""
    with pytest.raises(subprocess.CalledProcessError) as refused:
        template(*arguments)
    return str(refused.value.stderr)


def pod(kind: str, namespace: str, name: str, *arguments: str) -> Obj:
    """The pod's specification of a workload."""
    found: Obj = objects(*arguments)[kind, namespace, name]["spec"]["template"]["spec"]
    return found


def agent_config(*arguments: str) -> dict[str, Any]:
    """The agents' configuration, as written."""
    text = objects(*arguments)["ConfigMap", "cotenant-node", "cotenant-node"]["data"]["agent.yaml"]
    found: dict[str, Any] = yaml.safe_load(text)
    return found
