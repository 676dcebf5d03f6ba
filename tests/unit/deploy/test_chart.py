"""The chart: the manifests are its result, values are checked, and each part can be switched off. Needs helm;
skipped where there is none.
"""

from __future__ import annotations

import json
import subprocess
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography.x509 import DNSName, SubjectAlternativeName, load_pem_x509_certificate
from tests.fakes.command_options import options
from tests.unit.deploy.chart import helm_only, objects, pod, refusal
from tests.unit.deploy.objects import DEPLOY, by_identity, containers, resources
from tools.manifests import CHART, definitions, rendered, template

from cotenant.cli.main import app
from cotenant.drivers.seals.seals import read_seal
from cotenant.services.certificates.parts import secret_name, service_hosts
from cotenant.services.reporting.identity import AUDIENCE

PARTS = {
    "scheduler": "cotenant-scheduler",
    "manager": "cotenant-manager",
    "webhook": "cotenant-webhook",
    "node": "cotenant-node",
    "extender": "cotenant-extended",
    "traces": "cotenant-traces",
    "rebalancer": "cotenant-rebalancer",
    "console": "cotenant-console",
    "credit": "cotenant-credit",
}
OFF_BY_DEFAULT = {"extender": True, "traces": True, "rebalancer": True, "console": True, "credit": True}
YOURS = "--set=certificates.source=existing"  # without the manager


def switched(**values: bool) -> tuple[str, ...]:
    return tuple(f"--set={part}.enabled={str(on).lower()}" for part, on in values.items())


def test_the_kinds_of_the_chart_are_those_of_the_package() -> None:
    for path, text in definitions().items():
        assert (DEPLOY / path).read_text() == text
    assert len(list((CHART / "crds").iterdir())) == len(definitions())


def test_the_schema_names_every_value_and_no_other() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())

    def same(value: Any, schema: dict[str, Any], path: str) -> None:
        if isinstance(value, dict) and schema.get("additionalProperties") is False:
            assert set(schema["properties"]) - {"global", "requests", "limits"} == set(value) - {
                "requests",
                "limits",
            }, path
            for name, entry in value.items():
                if f"{path}.{name}" != ".node.config":  # the agent's own settings: test_chart_node.py
                    same(entry, schema["properties"][name], f"{path}.{name}")

    same(values, schema, "")


@helm_only
def test_the_manifests_are_what_the_chart_renders() -> None:
    for path, text in rendered().items():
        assert (DEPLOY / path).read_text() == text, f"{path}: make manifests"


@helm_only
def test_the_kustomization_installs_what_the_chart_installs() -> None:
    by_kustomize = by_identity(list(resources(DEPLOY)))
    del by_kustomize["Namespace", "", "cotenant-system"]  # with Helm it is made before the release
    chart = objects(
        "--include-crds", "--no-hooks", "--set=scheduler.seal.create=false"
    )  # kubectl has no hooks, and makes no keys
    assert by_kustomize == chart


@helm_only
@pytest.mark.parametrize("part", PARTS)
def test_a_part_that_is_off_leaves_nothing(part: str) -> None:
    with_all = objects(*switched(**OFF_BY_DEFAULT), YOURS)
    without = objects(*switched(**(OFF_BY_DEFAULT | {part: False})), YOURS)
    gone = set(with_all) - set(without)
    assert set(without) < set(with_all)
    assert any(name == PARTS[part] for _, _, name in gone)
    assert not any(name.startswith(PARTS[part]) for _, _, name in without)


@helm_only
def test_nothing_but_priority_classes_remains_with_all_parts_off() -> None:
    left = objects(*switched(**dict.fromkeys(PARTS, False)), "--no-hooks")
    assert {kind for kind, _, _ in left} == {"PriorityClass"}
    assert objects(*switched(**dict.fromkeys(PARTS, False)), "--set=priorityClasses.create=false") == {}


@helm_only
@pytest.mark.parametrize(
    "wrong",
    [
        "scheduler.replicas=0",
        "scheduler.replica=2",
        "logs.format=xml",
        "webhook.failurePolicy=Maybe",
        "node.mode=watch",
        "image.digest=abc",
        "networkPolicy.apiServerCidrs={here}",
        "node.cgroupRoot=/kubepods",
    ],
)
def test_a_wrong_value_is_refused(wrong: str) -> None:
    with pytest.raises(subprocess.CalledProcessError) as refused:
        template("--set", wrong)
    assert wrong.partition("=")[0].partition(".")[2].split(".")[-1] in refused.value.stderr


@helm_only
def test_one_replica_has_no_budget() -> None:
    one = objects("--set=scheduler.replicas=1")
    assert ("PodDisruptionBudget", "cotenant-system", "cotenant-scheduler") not in one
    assert ("PodDisruptionBudget", "cotenant-system", "cotenant-manager") in one


@helm_only
def test_kernel_schedulers_on_nodes_are_a_choice_of_their_own() -> None:
    with pytest.raises(subprocess.CalledProcessError) as refused:
        template("--set=node.zoneSchedulers=true")
    assert "node.zoneSchedulers needs node.zones" in refused.value.stderr
    name = ("DaemonSet", "cotenant-node", "cotenant-node")
    weights = objects("--set=node.zones=true")
    loading = objects("--set=node.zones=true", "--set=node.zoneSchedulers=true")
    added = []
    for made in (weights, loading):
        (keeper,) = made[name]["spec"]["template"]["spec"]["initContainers"]
        added.append(set(keeper["securityContext"]["capabilities"]["add"]))
        assert keeper["securityContext"]["capabilities"]["drop"] == ["ALL"]
        assert any(entry.startswith("--bpf-root=") for entry in keeper["args"]) == (made is loading)
    assert added == [{"SYS_RESOURCE"}, {"SYS_RESOURCE", "BPF", "PERFMON", "SYS_NICE"}]
    # what the role of the agent may write is limited to its own node
    policy = loading["ValidatingAdmissionPolicy", "", "cotenant-node"]["spec"]
    assert any(entry["resources"] == ["controlzones/status"] for entry in policy["matchConstraints"]["resourceRules"])
    assert {entry["name"] for entry in policy["variables"]} == {"before", "after"}


@helm_only
def test_what_pods_are_given_is_signed_by_a_key_of_the_release(tmp_path: Path) -> None:
    made = objects()
    secret = made["Secret", "cotenant-system", "cotenant-seal"]
    for name, text in secret["data"].items():
        (tmp_path / name).write_bytes(b64decode(text))
    sealer, _ = read_seal(tmp_path)  # raises for a certificate of another key
    assert sealer is not None
    certificate = load_pem_x509_certificate((tmp_path / "tls.crt").read_bytes())
    names = certificate.extensions.get_extension_for_class(SubjectAlternativeName).value
    assert names.get_values_for_type(DNSName) == ["cotenant"]  # which states class and quota of its pods
    public = made["ConfigMap", "cotenant-node", "cotenant-seal"]["data"]
    assert set(public) == {"tls.crt"}
    assert public["tls.crt"].strip() == (tmp_path / "tls.crt").read_text().strip()
    assert made["ConfigMap", "cotenant-system", "cotenant-seal"]["data"] == public
    assert secret["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    others = objects("--set=scheduler.seal.others=OTHERS")["ConfigMap", "cotenant-node", "cotenant-seal"]["data"]
    assert others["tls.crt"] == f"{others['own.crt'].strip()}\nOTHERS\n"
    (scheduler,) = made["Deployment", "cotenant-system", "cotenant-scheduler"]["spec"]["template"]["spec"]["containers"]
    assert "--seal=/etc/cotenant/seal" in scheduler["args"]
    config = yaml.safe_load(made["ConfigMap", "cotenant-node", "cotenant-node"]["data"]["agent.yaml"])
    assert config["seal_certificate"] == "/etc/cotenant-seal/tls.crt"
    without = objects("--set=scheduler.seal.enabled=false")
    assert ("Secret", "cotenant-system", "cotenant-seal") not in without
    assert "seal" not in without["ConfigMap", "cotenant-node", "cotenant-node"]["data"]["agent.yaml"]


@helm_only
def test_agents_that_report_have_a_token_of_their_own() -> None:
    url = "https://cotenant-scheduler.cotenant-system.svc:10261/metrics/report"
    made = objects(f"--set=node.reports.urls={{{url}}}", "--set=networkPolicy.reportCidrs={10.0.0.0/8}")
    config = yaml.safe_load(made["ConfigMap", "cotenant-node", "cotenant-node"]["data"]["agent.yaml"])
    assert config["reports"] == {
        "urls": [url],
        "token_file": "/var/run/secrets/cotenant/token",
        "ca_file": "/etc/cotenant-ca/ca.crt",
    }
    manager = made["Deployment", "cotenant-system", "cotenant-manager"]["spec"]["template"]["spec"]["containers"][0]
    assert "--authorities-in=cotenant-node/cotenant-ca" in manager["args"]
    pod = made["DaemonSet", "cotenant-node", "cotenant-node"]["spec"]["template"]["spec"]
    (volume,) = (entry for entry in pod["volumes"] if entry["name"] == "report-token")
    (source,) = volume["projected"]["sources"]
    assert source["serviceAccountToken"]["audience"] == AUDIENCE
    mounted = {container["name"]: [m["mountPath"] for m in container["volumeMounts"]] for container in containers(pod)}
    assert "/var/run/secrets/cotenant" in mounted["agent"]
    assert "/etc/cotenant-ca" in mounted["agent"]
    assert "/var/run/secrets/cotenant" not in mounted["keeper"]
    policy = made["NetworkPolicy", "cotenant-system", "cotenant-scheduler"]["spec"]
    assert {"ports": [{"port": 10261}], "from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]} in policy["ingress"]


@helm_only
def test_a_digest_takes_precedence_over_the_tag_and_further_arguments_are_passed_on() -> None:
    digest = "sha256:" + "0" * 64
    made = objects(
        f"--set=image.digest={digest}", "--set=scheduler.arguments={--qps=100}", "--set=image.pullSecrets={here}"
    )
    pod = made["Deployment", "cotenant-system", "cotenant-scheduler"]["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == f"localhost/cotenant@{digest}"
    assert "--qps=100" in pod["containers"][0]["args"]
    assert pod["imagePullSecrets"] == [{"name": "here"}]


@helm_only
def test_rights_that_only_an_option_needs_come_with_the_option() -> None:
    def rights(name: str, *arguments: str) -> set[tuple[str, str]]:
        role = objects("--set=extender.enabled=true", *arguments)["ClusterRole", "", f"cotenant-{name}"]
        return {(verb, entry) for rule in role["rules"] for verb in rule["verbs"] for entry in rule["resources"]}

    assert rights("webhook", "--set=webhook.arguments={--quota-admission}") - rights("webhook") == {("watch", "pods")}
    quotas = {("list", "elasticquotas"), ("watch", "elasticquotas")}
    assert rights("extender", "--set=extender.arguments={--credit}") - rights("extender") == quotas
    assert rights("extender", "--set=extender.arguments={--bind}") - rights("extender") == {("create", "pods/binding")}


@helm_only
def test_another_first_name_changes_the_lease() -> None:
    made = objects("--set=scheduler.names={fast=founding,cotenant}")
    role = made["Role", "cotenant-system", "cotenant-scheduler-lease"]
    assert role["rules"][1]["resourceNames"] == ["fast-scheduler"]


@helm_only
def test_no_scraper_and_no_sender_means_no_ingress(tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text("networkPolicy: {monitoringNamespaces: []}")
    made = objects(f"--values={values}")
    assert made["NetworkPolicy", "cotenant-system", "cotenant-manager"]["spec"]["ingress"] == []


@helm_only
def test_alerts_are_those_of_the_parts_that_run() -> None:
    made = objects(
        "--set=monitoring.rules=true", "--set=manager.enabled=false", "--set=monitoring.runbookUrl=https://r", YOURS
    )
    rule = made["PrometheusRule", "cotenant-system", "cotenant"]
    names = [group["name"] for group in rule["spec"]["groups"]]
    assert names == ["cotenant-scheduler", "cotenant-webhook", "cotenant-node"]
    assert rule["spec"]["groups"][0]["rules"][0]["annotations"]["runbook_url"].startswith("https://r/scheduler.md#")


CERTIFIED = ("scheduler", "manager", "rebalancer", "traces", "console")


@helm_only
@pytest.mark.parametrize("source", ["manager", "cert-manager", "existing", "none"])
def test_every_port_has_the_certificate_of_its_service(source: str) -> None:
    """Processes read the arguments; probes, Services and Secrets name the same."""
    made = objects(
        *switched(**OFF_BY_DEFAULT), f"--set=certificates.source={source}", "--set=certificates.issuer.name=ours"
    )
    for part in CERTIFIED:
        pod = made["Deployment", "cotenant-system", f"cotenant-{part}"]["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        probes = {container[name]["httpGet"]["scheme"] for name in ("livenessProbe", "readinessProbe")}
        assert probes == {"HTTP" if source == "none" else "HTTPS"}
        flags = {entry.partition("=")[0] for entry in container["args"]}
        secrets = {
            entry["secret"]["secretName"]: {item["key"] for item in entry["secret"]["items"]}
            for entry in pod["volumes"]
            if entry.get("secret", {}).get("secretName", "").endswith("-tls")
        }
        assert "signer.key" not in {key for keys in secrets.values() for key in keys}
        if source == "none":
            assert not {"--tls-cert", "--tls-service"} & flags
            assert not secrets
        elif part == "manager" and source == "manager":
            assert "--tls-service=cotenant-manager" in container["args"]
            assert not secrets
        else:
            assert {"--tls-cert", "--tls-key"} <= flags
            assert secrets[f"cotenant-{part}-tls"] == {"tls.crt", "tls.key"}
        certificate = made.get(("Certificate", "cotenant-system", f"cotenant-{part}"))
        assert (certificate is not None) is (source == "cert-manager")
        if certificate is not None:
            assert certificate["spec"]["secretName"] == f"cotenant-{part}-tls"
            hosts = service_hosts(f"cotenant-{part}", "cotenant-system")
            assert {*certificate["spec"]["dnsNames"], *certificate["spec"]["ipAddresses"]} == set(hosts)
    manager = made["Deployment", "cotenant-system", "cotenant-manager"]["spec"]["template"]["spec"]["containers"][0]
    kept = {
        entry.partition("=")[2] for entry in manager["args"] if entry.startswith(("--certificates-for", "--tls-serv"))
    }
    role = made.get(("Role", "cotenant-system", "cotenant-manager-certificates"))
    assert bool(kept) is (role is not None) is (source == "manager")
    if role is not None:
        assert {f"cotenant-{part}" for part in CERTIFIED} <= kept
        assert set(role["rules"][1]["resourceNames"]) == {secret_name(entry) for entry in kept}


@helm_only
def test_certificates_of_the_manager_need_the_manager() -> None:
    with pytest.raises(subprocess.CalledProcessError) as refused:
        template("--set=manager.enabled=false")
    assert "certificates.source=manager needs manager.enabled" in refused.value.stderr
    with pytest.raises(subprocess.CalledProcessError) as refused:
        template("--set=certificates.source=cert-manager")
    assert "certificates.issuer.name" in refused.value.stderr


@helm_only
@pytest.mark.parametrize("part", ["scheduler", "manager", "rebalancer"])
def test_a_part_sends_its_traces_to_the_trace_process(part: str) -> None:
    made = objects(
        f"--set={part}.traces=true,traces.enabled=true,rebalancer.enabled=true",
        "--set=traces.from[0].podSelector.matchLabels.app=shop",
    )
    pods = {
        name: made["Deployment", "cotenant-system", f"cotenant-{name}"]["spec"]["template"]["spec"]
        for name in ("scheduler", "manager", "rebalancer")
    }
    sending = [name for name, pod in pods.items() if "--otlp-traces=" in str(pod["containers"][0]["args"])]
    assert sending == [part]
    (container,) = pods[part]["containers"]
    _, bound, unused, *_ = app.parse_known_args(container["args"])
    assert not unused
    assert options(bound)["otlp_traces"] == "https://cotenant-traces.cotenant-system.svc:4318"
    mounted = {entry["mountPath"]: entry["name"] for entry in container["volumeMounts"]}
    secrets = {entry["name"]: entry["secret"] for entry in pods[part]["volumes"] if "secret" in entry}
    for option, secret in (
        ("otlp_traces_token_file", "cotenant-traces-send"),
        ("otlp_traces_ca", "cotenant-traces-tls"),
    ):
        path = options(bound)[option]
        assert secrets[mounted[str(path.parent)]]["secretName"] == secret
        assert path.name in {entry["path"] for entry in secrets[mounted[str(path.parent)]]["items"]}
    policies = {
        name: made["NetworkPolicy", "cotenant-system", f"cotenant-{name}"]["spec"] for name in (*pods, "traces")
    }
    label = [{"podSelector": {"matchLabels": {"app": "cotenant-traces"}}}]
    to_traces = {"ports": [{"port": 4318}], "to": label}
    assert [name for name in pods if to_traces in policies[name]["egress"]] == [part]
    sender = [{"podSelector": {"matchLabels": {"app": f"cotenant-{part}"}}}]
    assert {"ports": [{"port": 4318}], "from": sender} in policies["traces"]["ingress"]
    with pytest.raises(subprocess.CalledProcessError) as refused:
        template(f"--set={part}.traces=true,rebalancer.enabled=true")
    assert f"{part}.traces needs traces.enabled" in refused.value.stderr


@helm_only
def test_the_console_asks_the_credit_process_and_the_agents() -> None:
    made = objects(
        *switched(console=True, credit=True),
        "--set=credit.tokenSecret=books,console.agents=http://{ip}:10262/",
        "--set=networkPolicy.reportCidrs={10.0.0.0/8}",
    )
    pod = made["Deployment", "cotenant-system", "cotenant-console"]["spec"]["template"]["spec"]
    _, bound, unused, *_ = app.parse_known_args(pod["containers"][0]["args"])
    assert not unused
    assert options(bound)["credit"] == "https://cotenant-credit.cotenant-system.svc:10265"
    assert str(options(bound)["credit_ca"]) == "/etc/cotenant/credit/ca.crt"
    assert str(options(bound)["credit_token_file"]) == "/etc/cotenant/credit-token/token"
    assert options(bound)["agents"] == "http://{ip}:10262/"
    (secret,) = (entry["secret"] for entry in pod["volumes"] if entry["name"] == "credit-token")
    assert secret["secretName"] == "books"
    egress = made["NetworkPolicy", "cotenant-system", "cotenant-console"]["spec"]["egress"]
    assert {"ports": [{"port": 10262}], "to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]} in egress
    assert any(entry["ports"] == [{"port": 10265}] for entry in egress)
    for agents, port in (("http://10.0.0.5", 80), ("https://agents.example/{node}", 443)):
        policy = objects("--set=console.enabled=true", f"--set=console.agents={agents}")[
            "NetworkPolicy", "cotenant-system", "cotenant-console"
        ]
        assert {"ports": [{"port": port}]} in policy["spec"]["egress"]
    ingress = made["NetworkPolicy", "cotenant-system", "cotenant-credit"]["spec"]["ingress"]
    caller = [{"podSelector": {"matchLabels": {"app": "cotenant-console"}}}]
    assert {"ports": [{"port": 10265}], "from": caller} in ingress


@helm_only
def test_agents_may_report_to_the_extender_without_a_client_certificate() -> None:
    url = "https://cotenant-extender.cotenant-system.svc:8889/metrics/report"
    made = objects(
        "--set=extender.enabled=true,node.reports.caConfigMap=receivers",
        f"--set=node.reports.urls={{{url}}}",
        "--set=networkPolicy.reportCidrs={10.0.0.0/8}",
    )
    policy = made["NetworkPolicy", "cotenant-system", "cotenant-extended"]["spec"]
    assert {"ports": [{"port": 8889}], "from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]} in policy["ingress"]
    ports = {entry["port"] for entry in made["Service", "cotenant-system", "cotenant-extender"]["spec"]["ports"]}
    assert 8889 in ports
    arguments = made["Deployment", "cotenant-system", "cotenant-extended"]["spec"]["template"]["spec"]["containers"][1][
        "args"
    ]
    assert {"--health-listen=:8889", "--health-tls", "--report-account=cotenant-node/cotenant-node"} <= set(arguments)


@helm_only
def test_moves_are_requested_only_of_a_rebalancer_that_acts() -> None:
    asks = ("--set=traces.enabled=true,traces.requestMoves=true",)
    acts = (*asks, "--set=rebalancer.enabled=true,rebalancer.config.dryRun=false")
    for wrong in (
        asks,
        (*asks, "--set=rebalancer.enabled=true"),
        (*acts, "--set=rebalancer.arguments={--no-act}"),
        (*acts, "--set=traces.objectives=false"),
    ):
        with pytest.raises(subprocess.CalledProcessError) as refused:
            template(*wrong)
        assert "traces.requestMoves needs" in refused.value.stderr
    for right in (acts, (*asks, "--set=rebalancer.enabled=true,rebalancer.arguments={--act}")):
        made = objects(*right)
        (container,) = made["Deployment", "cotenant-system", "cotenant-traces"]["spec"]["template"]["spec"][
            "containers"
        ]
        assert "--request-moves" in container["args"]
        resources_of = [entry["resources"] for entry in made["ClusterRole", "", "cotenant-traces"]["rules"]]
        assert ["podmigrationjobs"] in resources_of


@helm_only
def test_the_runtime_hook_is_a_container_of_the_nodes_pod_when_asked_for() -> None:
    key = next(entry for entry in objects() if entry[0] == "DaemonSet")
    plain, hooked = (objects(*more)[key]["spec"]["template"]["spec"] for more in ((), ("--set=node.nri.enabled=true",)))
    assert "nri" not in {entry["name"] for entry in (*plain["containers"], *plain["volumes"])}
    (hook,) = (entry for entry in hooked["containers"] if entry["name"] == "nri")
    app.parse_args(hook["args"], exit_on_error=False)  # the command takes them
    assert {entry["name"] for entry in hook["volumeMounts"]} <= {entry["name"] for entry in hooked["volumes"]}
    assert hook["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["SYS_NICE"]}
    assert len(hooked["containers"]) == len(plain["containers"]) + 1


@helm_only
def test_pods_are_resized_only_where_it_is_asked_for() -> None:
    role, deployment = ("ClusterRole", "", "cotenant-manager"), ("Deployment", "cotenant-system", "cotenant-manager")
    plain, sized = objects(), objects("--set=manager.rightSizing=true")
    assert "pods/resize" not in str(plain[role])
    assert {"apiGroups": [""], "resources": ["pods/resize"], "verbs": ["patch"]} in sized[role]["rules"]
    for made, is_asked in ((plain, False), (sized, True)):
        (container,) = made[deployment]["spec"]["template"]["spec"]["containers"]
        assert ("--right-sizing" in container["args"]) is is_asked


@helm_only
def test_predictions_are_shared_only_where_it_is_asked_for() -> None:
    role = ("Role", "koordinator-system", "cotenant-manager-config")
    deployment = ("Deployment", "cotenant-system", "cotenant-manager")
    plain, shared = objects(), objects("--set=manager.sharePredictions=true")
    own = {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["cotenant-predictions"]}
    assert "cotenant-predictions" not in str(plain[role])
    assert {**own, "verbs": ["get", "patch"]} in shared[role]["rules"]
    for made, is_asked in ((plain, False), (shared, True)):
        (container,) = made[deployment]["spec"]["template"]["spec"]["containers"]
        assert ("--share-predictions=koordinator-system/cotenant-predictions" in container["args"]) is is_asked


@helm_only
def test_a_history_of_use_is_on_a_claim_of_one_replica() -> None:
    values = ("--set=manager.historyClaim=use", "--set=manager.replicas=1")
    spec = pod("Deployment", "cotenant-system", "cotenant-manager", *values)
    container = spec["containers"][0]
    assert "--history-dir=/var/lib/cotenant/history" in container["args"]
    assert {"name": "history", "mountPath": "/var/lib/cotenant/history"} in container["volumeMounts"]
    assert {"name": "history", "persistentVolumeClaim": {"claimName": "use"}} in spec["volumes"]
    assert "set manager.replicas: 1" in refusal("--set=manager.historyClaim=use")


@helm_only
@pytest.mark.parametrize("values", ["everything.yaml", "shadow.yaml"])
def test_every_certificate_that_a_pod_waits_for_is_made(values: str) -> None:
    """A pod whose Secret nobody makes stays in ContainerCreating, as the shadow's did."""
    made = objects(f"--values={CHART / values}")
    manager = made["Deployment", "cotenant-system", "cotenant-manager"]["spec"]["template"]["spec"]["containers"][0]
    certified = {word.partition("=")[2] for word in manager["args"] if word.startswith("--certificates-for=")}
    of_pods = {
        volume["secret"]["secretName"]
        for found in made.values()
        if found["kind"] == "Deployment"
        for volume in found["spec"]["template"]["spec"]["volumes"]
        if "secret" in volume and not volume["secret"].get("optional")
    }
    wanted = {name.removesuffix("-tls") for name in of_pods if name.endswith("-tls") and "extender" not in name}
    assert wanted - {"cotenant-manager"} <= certified
