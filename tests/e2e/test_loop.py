"""`cotenant up --workload colocation`: requests are counted, a neighbour hurts a service, its node's agent acts,
and the recovery is proven.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.e2e.running import Up, eventually, run

pytestmark = pytest.mark.slow
SERVICE = "shop/checkout"


def test_a_service_burns_its_culprit_is_named_and_the_recovery_is_proven(tmp_path: Path) -> None:
    pytest.importorskip("opentelemetry.proto", reason="the extra `traces` is not installed")
    with Up(tmp_path / "up", "--nodes", 8, "--workload", "colocation", "--ephemeral") as up:
        api = up.ready()
        traces = (up.directory / "traces-url").read_text().strip()
        objectives = "/apis/slo.cotenant.io/v1alpha1/namespaces/shop/serviceobjectives"
        found = lambda: sum(entry.get("status", {}).get("requests", 0) for entry in api.items(objectives))  # noqa: E731
        eventually("requests count", found, 90.0)
        quotas = api.items("/apis/scheduling.sigs.k8s.io/v1alpha1/elasticquotas")
        assert {quota["metadata"]["name"] for quota in quotas} == {"colocation", "research", "shop"}

        def told() -> str:
            found = run("explain", "service", SERVICE, "--traces", traces)
            return found.stdout if "helped" in found.stdout else ""

        story = eventually("an action is proven", told, 240.0)
        # the cause that is told is the latest answer, and may have become uncertain since
        assert re.search(r"for research/reindex-1-\w+ helped", " ".join(story.split())), story
        pods = api.items("/api/v1/namespaces/shop/pods")
        late = eventually(
            "a line says it", lambda: [pod for pod in pods if f"{pod['metadata']['name']} went from" in up.said], 30.0
        )
        assert len(late) >= 1
    assert not (tmp_path / "up" / "agents").exists()
