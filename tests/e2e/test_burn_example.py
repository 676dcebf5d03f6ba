"""The service of examples/burn beside a trace process: every request of each of its replicas counts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.fakes.servers.trace_process import Running
from tests.fakes.waiting import eventually, patience

from cotenant.services.traces.senders import AUDIENCE
from cotenant.services.traces.traces_arguments import TraceSettings

BURN = Path(__file__).parents[2] / "examples" / "burn"
TOKEN = "t" * 40


def pod() -> dict[str, Any]:
    """Of the Deployment."""
    found: dict[str, Any] = yaml.safe_load((BURN / "service.yaml").read_text())["spec"]["template"]["spec"]
    return found


def variables() -> dict[str, str]:
    """Those of the container that the manifest gives a value."""
    (container,) = pod()["containers"]
    return {entry["name"]: entry["value"] for entry in container["env"] if "value" in entry}


def test_the_token_is_for_the_trace_process_and_lies_where_the_program_reads_it() -> None:
    (container,) = pod()["containers"]
    (mount,) = [entry for entry in container["volumeMounts"] if entry["name"] == "cotenant"]
    (volume,) = [entry for entry in pod()["volumes"] if entry["name"] == "cotenant"]
    sources = {kind: source for entry in volume["projected"]["sources"] for kind, source in entry.items()}
    token = sources["serviceAccountToken"]
    assert token["audience"] == AUDIENCE
    assert variables()["TOKEN_FILE"] == f"{mount['mountPath']}/{token['path']}"
    assert variables()["OTEL_EXPORTER_OTLP_CERTIFICATE"].startswith(f"{mount['mountPath']}/")


@pytest.mark.slow
def test_two_replicas_count_for_the_objective_and_prove_their_namespace(tmp_path: Path) -> None:
    (tmp_path / "tokens").mkdir()
    (tmp_path / "tokens" / "shop").write_text(TOKEN)
    settings = TraceSettings(
        http="127.0.0.1:0",
        grpc="",
        objectives=BURN / "objective.yaml",
        sender_tokens=tmp_path / "tokens",
    )
    with Running(settings) as running, ExitStack() as stack:
        running.clock.now_s = time.time()
        for number in range(2):
            given = {
                "OTEL_EXPORTER_OTLP_ENDPOINT": running.url.removesuffix("/v1/traces"),
                "TOKEN_FILE": str(tmp_path / "tokens" / "shop"),
                "POD": f"cart-{number}",
                "NAMESPACE": "shop",
                "RATE": "200",
                "WORK_MS": "0.1",
            }
            process = subprocess.Popen(
                [sys.executable, "-S", str(BURN / "cart.py")], env={"PATH": os.environ["PATH"], **given}
            )
            stack.callback(process.wait, patience(20))
            stack.callback(process.terminate)

        def replicas() -> dict[str, int]:
            running.clock.now_s = time.time()
            view = json.loads(running.ask("GET", "/api/v1/objectives/shop/cart-latency")[1])
            return {entry["pod"]: entry["requests"] for entry in view["replicas"] if entry["requests"]}

        eventually("both replicas are counted", lambda: set(replicas()) == {"shop/cart-0", "shop/cart-1"})
        view = json.loads(running.ask("GET", "/api/v1/objectives/shop/cart-latency")[1])
        said = {entry["type"]: entry["status"] for entry in view["conditions"]}
        assert said["Authenticated"] == "True", said
        page = running.ask("GET", "/metrics")[1].decode()
        assert "cotenant_traces_spans_repeated_total 0.0" in page
