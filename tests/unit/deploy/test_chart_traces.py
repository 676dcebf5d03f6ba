"""What the chart gives the trace process of model servers, and a rebalancer's mode."""

from __future__ import annotations

from pathlib import Path

import yaml
from tests.unit.deploy.chart import helm_only, objects, refusal
from tools.manifests import CHART

from cotenant.cli.main import app
from cotenant.services.traces.model_servers.server_file import read_model_servers

ENABLED = "--set=traces.enabled=true"
FIRST = "traces.modelServers.pods[0]"
PODS = f"--set={FIRST}.service=shop/llm,{FIRST}.labels.app=llm,{FIRST}.port=8000"
URLS = "--set=traces.modelServers.servers[0].service=shop/llm,traces.modelServers.servers[0].url=https://llm/metrics"
MAP = ("ConfigMap", "cotenant-system", "cotenant-model-servers")


@helm_only
def test_the_trace_process_may_find_and_reach_the_model_servers_that_it_reads(tmp_path: Path) -> None:
    watched = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}
    assert MAP not in objects(ENABLED)
    assert MAP not in objects(PODS)
    for values, port, finds in ((PODS, 8000, True), (URLS, 443, False)):
        made = objects(ENABLED, values)
        spec = made["Deployment", "cotenant-system", "cotenant-traces"]["spec"]["template"]["spec"]
        (container,) = spec["containers"]
        assert "--model-servers=/etc/cotenant/model-servers/servers.yaml" in container["args"]
        app.parse_args(container["args"], exit_on_error=False)  # the command takes them
        assert {entry["name"] for entry in container["volumeMounts"]} <= {entry["name"] for entry in spec["volumes"]}
        file = tmp_path / f"{port}.yaml"
        file.write_text(made[MAP]["data"]["servers.yaml"])
        assert bool(read_model_servers(file).pods) is finds
        assert (watched in made["ClusterRole", "", "cotenant-traces"]["rules"]) is finds
        egress = made["NetworkPolicy", "cotenant-system", "cotenant-traces"]["spec"]["egress"]
        assert {"ports": [{"port": port}]} in egress
    assert "traces.modelServers.pods needs traces.objectives" in refusal(ENABLED, PODS, "--set=traces.objectives=false")


@helm_only
def test_authorities_and_tokens_of_model_servers_are_files_of_a_secret() -> None:
    folder = "/etc/cotenant/model-servers-secret"
    files = f"--set={FIRST}.scheme=https,{FIRST}.caFile={folder}/ca.crt,{FIRST}.tokenFile={folder}/token"
    for secret in ("", "llm"):
        made = objects(ENABLED, PODS, files, f"--set=traces.modelServersSecret={secret}")
        (pods,) = yaml.safe_load(made[MAP]["data"]["servers.yaml"])["pods"]
        assert (pods["caFile"], pods["tokenFile"]) == (f"{folder}/ca.crt", f"{folder}/token")
        spec = made["Deployment", "cotenant-system", "cotenant-traces"]["spec"]["template"]["spec"]
        mounted = [mount for mount in spec["containers"][0]["volumeMounts"] if mount["mountPath"] == folder]
        assert [mount["readOnly"] for mount in mounted] == [True] * bool(secret)
        found = [
            volume["secret"]["secretName"] for volume in spec["volumes"] if volume["name"] == "model-servers-secret"
        ]
        assert found == ([secret] if secret else [])
    assert "caFile" in refusal(ENABLED, PODS, f"--set={FIRST}.caFile=ca.crt")


@helm_only
def test_a_first_week_requests_no_moves_by_an_argument_either() -> None:
    shadow = (f"--values={CHART / 'shadow.yaml'}", "--set=traces.arguments={--request-moves}")
    assert "traces.requestMoves" in refusal(*shadow)


@helm_only
def test_a_rebalancer_acts_as_far_as_its_mode_goes() -> None:
    for mode, said in (("act", False), ("approve", True), ("earned", True)):
        made = objects(f"--set=rebalancer.enabled=true,rebalancer.mode={mode}")
        (container,) = made["Deployment", "cotenant-system", "cotenant-rebalancer"]["spec"]["template"]["spec"][
            "containers"
        ]
        assert (f"--mode={mode}" in container["args"]) is said
        app.parse_args(container["args"], exit_on_error=False)
    assert "mode" in refusal("--set=rebalancer.enabled=true,rebalancer.mode=ask")
