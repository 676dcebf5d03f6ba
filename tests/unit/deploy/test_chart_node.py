"""The chart's part on every node: whose groups, which rights, how it joins the loop of objectives, what may be set.
Needs helm; skipped where there is none.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from tests.fakes.command_options import options
from tests.unit.deploy.chart import SHADOW, agent_config, helm_only, objects, pod, refusal
from tests.unit.deploy.objects import Obj, containers
from tools import values_schema

from cotenant.cli.main import app
from cotenant.services.agent_settings.config import AgentConfig, read_config
from cotenant.services.reporting.identity import AUDIENCE

NAME = ("DaemonSet", "cotenant-node", "cotenant-node")
LOOP = "--set=traces.enabled=true,credit.enabled=true"


def parts(*arguments: str) -> dict[str, Obj]:
    return {container["name"]: container for container in containers(pod(*NAME, *arguments))}


def keeper(*arguments: str) -> dict[str, object]:
    _, bound, unused, *_ = app.parse_known_args(parts(*arguments)["keeper"]["args"])
    assert not unused
    return options(bound)


def taken(tmp_path: Path, *arguments: str) -> AgentConfig:
    """The configuration, as an agent reads it."""
    file = tmp_path / "agent.yaml"
    file.write_text(yaml.safe_dump(agent_config(*arguments)))
    return read_config(file)


@helm_only
@pytest.mark.parametrize(
    ("values", "groups", "roots", "writable"),
    [
        ((), "best-effort", (), ()),
        (("--set=node.protectServices=true",), "all", (), ()),
        (("--set=node.cgroupRoot=kubepods/besteffort",), None, ("kubepods/besteffort",), ("kubepods/besteffort",)),
        (
            ("--set=node.cgroupRoot=kubepods.slice/kubepods-besteffort.slice,node.protectServices=true",),
            None,
            ("kubepods.slice",),
            ("kubepods.slice",),
        ),
    ],
)
def test_agent_and_keeper_mean_the_same_groups(
    tmp_path: Path, values: tuple[str, ...], groups: str | None, roots: tuple[str, ...], writable: tuple[str, ...]
) -> None:
    said, asked = taken(tmp_path, *values), keeper(*values)
    assert said.kubelet_groups == groups
    assert (asked.get("kubelet_groups") or None) == groups
    assert (asked.get("root", ()), said.writable) == (roots, writable)
    protects = "node.protectServices=true" in "".join(values)
    assert (said.policies.own_cpus is not None) is (said.policies.burst is not None) is protects
    if roots:
        assert (said.best_effort_group or "").endswith(("besteffort", "besteffort.slice"))


@helm_only
def test_a_policy_that_writes_groups_of_services_is_not_on_where_the_keeper_may_not() -> None:
    for policy in ("own_cpus", "burst"):
        assert "needs node.protectServices" in refusal(f"--set=node.config.policies.{policy}=true")
    on = agent_config("--set=node.config.policies.burst=true,node.protectServices=true")
    assert on["policies"] == {"burst": True}
    assert "node.cgroupRoot" in refusal("--set=node.cgroupRoot=batch.slice,node.protectServices=true")


@helm_only
def test_settings_of_the_agent_join_those_of_the_chart_key_by_key() -> None:
    said = agent_config("--set=node.config.cluster.node_slo=true,node.config.policies.interference=true")
    assert said["cluster"] == {"prediction_file": "/tmp/prediction.json", "node_slo": True}
    assert said["policies"] == {"own_cpus": False, "burst": False, "interference": True}


@helm_only
def test_the_loop_of_objectives_closes_by_itself(tmp_path: Path) -> None:
    """Agents get address, token and authorities; the processes know whose tokens these are, and may ask the API
    server.
    """
    said, made = taken(tmp_path, LOOP), objects(LOOP)
    agent = pod(*NAME, LOOP)
    token, ca = Path("/var/run/secrets/cotenant/token"), Path("/etc/cotenant-ca/ca.crt")
    for part, link, port in (("traces", said.traces, 4318), ("credit", said.credit, 10265)):
        assert link.url == f"https://cotenant-{part}.cotenant-system.svc:{port}"
        assert (link.token_file, link.ca_file) == (token, ca)
        (container,) = pod("Deployment", "cotenant-system", f"cotenant-{part}", LOOP)["containers"]
        _, bound, unused, *_ = app.parse_known_args(container["args"])
        assert not unused
        assert options(bound)["report_account"] == "cotenant-node/cotenant-node"
        rules = made["ClusterRole", "", f"cotenant-{part}"]["rules"]
        assert {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]} in rules
        ingress = made["NetworkPolicy", "cotenant-system", f"cotenant-{part}"]["spec"]["ingress"]
        blocks = [{"ipBlock": {"cidr": name}} for name in ("0.0.0.0/0", "::/0")]
        assert {"ports": [{"port": port}], "from": blocks} in ingress  # agents are in the nodes' network
    mounted = {entry["mountPath"]: entry["name"] for entry in parts(LOOP)["agent"]["volumeMounts"]}
    writable = {entry["mountPath"] for entry in parts(LOOP)["agent"]["volumeMounts"] if not entry.get("readOnly")}
    assert str(said.state_dir) in writable  # incidents that wait to be reported
    volumes = {entry["name"]: entry for entry in agent["volumes"]}
    (source,) = volumes[mounted[str(token.parent)]]["projected"]["sources"]
    assert source["serviceAccountToken"]["audience"] == AUDIENCE
    assert volumes[mounted[str(ca.parent)]]["configMap"] == {
        "name": "cotenant-ca",
        "optional": True,  # or no agent would start before the manager
        "items": [{"key": "ca.crt", "path": "ca.crt"}],
    }
    assert not {str(token.parent), str(ca.parent)} & {
        entry["mountPath"] for entry in parts(LOOP)["keeper"]["volumeMounts"]
    }


@helm_only
def test_nodes_that_are_named_are_the_only_ones_that_may_send() -> None:
    made = objects(LOOP, "--set=networkPolicy.reportCidrs={10.0.0.0/8}")
    for part, port in (("traces", 4318), ("credit", 10265)):
        ingress = made["NetworkPolicy", "cotenant-system", f"cotenant-{part}"]["spec"]["ingress"]
        blocks = [peer["ipBlock"]["cidr"] for rule in ingress for peer in rule["from"] if "ipBlock" in peer]
        assert blocks == ["10.0.0.0/8"]
        assert {"ports": [{"port": port}], "from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]} in ingress


@helm_only
def test_senders_that_are_named_stay_the_only_ones() -> None:
    """Agents come from addresses of nodes, and any address would be any pod's too."""
    named = "--set=traces.from[0].podSelector.matchLabels.app=shop"
    for more, blocks in (((), []), (("--set=networkPolicy.reportCidrs={10.0.0.0/8}",), ["10.0.0.0/8"])):
        policy = objects(LOOP, named, *more)["NetworkPolicy", "cotenant-system", "cotenant-traces"]["spec"]
        found = [peer["ipBlock"]["cidr"] for rule in policy["ingress"] for peer in rule["from"] if "ipBlock" in peer]
        assert found == blocks


@helm_only
def test_agents_stay_out_of_the_loop_where_they_are_told_to() -> None:
    for values in (
        ("--set=traces.agents=false,credit.agents=false", LOOP),
        (LOOP, "--set=traces.objectives=false,credit.agents=false"),
    ):
        said = agent_config(*values)
        assert not {"traces", "credit"} & set(said)
        assert "report-token" not in {entry["name"] for entry in pod(*NAME, *values)["volumes"]}
    plain = agent_config(LOOP, "--set=certificates.source=none")
    assert plain["traces"] == {
        "url": "http://cotenant-traces.cotenant-system.svc:4318",
        "token_file": "/var/run/secrets/cotenant/token",
    }


@helm_only
def test_senders_of_spans_find_a_token_that_is_made_once() -> None:
    made = objects("--set=traces.enabled=true")
    tokens = [made["Secret", "cotenant-system", f"cotenant-traces{name}"]["data"] for name in ("", "-send")]
    assert [set(token) for token in tokens] == [{"token"}, {"token"}]
    assert tokens[0] != tokens[1]
    own = objects("--set=traces.enabled=true,traces.createToken=false")
    assert ("Secret", "cotenant-system", "cotenant-traces") not in own


@helm_only
def test_the_keepers_rights_are_values(tmp_path: Path) -> None:
    caps = parts()["keeper"]["securityContext"]["capabilities"]
    assert caps == {"drop": ["ALL"], "add": ["SYS_RESOURCE"]}
    values = tmp_path / "values.yaml"
    values.write_text("node: {keeperCapabilities: []}")
    assert parts(f"--values={values}")["keeper"]["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    more = parts("--set=node.keeperCapabilities={NET_ADMIN},node.zones=true,node.zoneSchedulers=true")
    assert more["keeper"]["securityContext"]["capabilities"]["add"] == ["NET_ADMIN", "BPF", "PERFMON", "SYS_NICE"]


@helm_only
def test_a_keeper_of_zones_in_virtual_machines_is_another_image_with_more_rights() -> None:
    plain, asked = keeper("--set=node.zones=true"), keeper("--set=node.zones=true,node.zoneMachines.enabled=true")
    assert (plain.get("zone_files"), asked["zone_files"]) == (None, Path("/var/lib/cotenant-zones"))
    assert asked.get("zone_signers") is None
    without = parts("--set=node.zones=true")
    values = "--set=node.zones=true,node.zoneMachines.enabled=true,node.zoneMachines.signers=zone-keys,image.tag=v2"
    spec = pod(*NAME, values)
    found = {container["name"]: container for container in containers(spec)}
    assert found["keeper"]["image"] == "localhost/cotenant:v2-zones"
    assert found["agent"]["image"] == "localhost/cotenant:v2"
    security = found["keeper"]["securityContext"]
    assert security == {"runAsUser": 0, "runAsGroup": 65532, "readOnlyRootFilesystem": True, "privileged": True}
    assert "privileged" not in without["keeper"]["securityContext"]
    assert found["agent"]["securityContext"] == without["agent"]["securityContext"]
    assert found["keeper"]["resources"]["limits"] == {"memory": "5Gi"}
    assert found["keeper"]["resources"]["requests"]["memory"] == f"{asked['max_zone_memory_mib'] + 256}Mi"
    machines = "node.zones=true,node.zoneMachines.enabled=true"
    less = keeper(f"--set={machines},node.zoneMachines.memoryMib=1024,node.zoneMachines.vcpus=4")
    assert (less["max_zone_memory_mib"], less["max_zone_vcpus"], less["max_zone_disk_mib"]) == (1024, 4, 8192)
    assert "--zone-signers=/etc/cotenant-zone-signers" in found["keeper"]["args"]
    # what it writes besides the keeper's own: images of machines, and virtiofsd's locks
    read_only = {entry["mountPath"]: entry.get("readOnly", False) for entry in found["keeper"]["volumeMounts"]}
    assert {path for path, is_read_only in read_only.items() if not is_read_only} == {
        *("/host/cgroup", "/var/lib/cotenant", "/run/cotenant", "/run/cotenant/zones/vm", "/run/virtiofsd")
    }
    volumes = {entry["name"]: entry for entry in spec["volumes"]}
    assert {entry["name"] for entry in found["keeper"]["volumeMounts"]} <= set(volumes)
    assert volumes["zone-machines"]["emptyDir"] == {"sizeLimit": "8192Mi"}
    assert volumes["zone-signers"]["configMap"] == {"name": "zone-keys"}


@helm_only
@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ("node.zoneMachines.enabled=true", "node.zoneMachines needs node.zones"),
        (
            f"node.zones=true,node.zoneMachines.enabled=true,image.digest=sha256:{'0' * 64}",
            "name the keeper's image yourself",
        ),
        ("node.zoneMachines.files=zones", "Does not match pattern"),
        ("node.zoneMachines.memoryMib=64", "Must be greater than or equal to 256"),
    ],
)
def test_machines_of_zones_that_cannot_be_are_refused(values: str, expected: str) -> None:
    assert expected in refusal(f"--set={values}")


@helm_only
def test_who_ran_while_services_waited_is_counted_where_it_is_asked_for() -> None:
    for asked in (False, True):
        keeper = parts(f"--set=node.waits={str(asked).lower()}")["keeper"]
        assert ("--waits" in keeper["args"]) == asked
        added = {"SYS_RESOURCE", "BPF", "PERFMON"} if asked else {"SYS_RESOURCE"}
        assert set(keeper["securityContext"]["capabilities"]["add"]) == added


@helm_only
def test_of_the_kubelets_folder_only_one_file_is_seen() -> None:
    """The folder has the Secrets of every pod of the node; a file that is missing must not be made, or no kubelet
    would start.
    """
    spec = pod(*NAME, "--set=node.kubeletFolder=/var/lib/k0s/kubelet/")
    volumes = {entry["name"]: entry.get("hostPath") for entry in spec["volumes"]}
    assert volumes["cpu-manager"] == {"path": "/var/lib/k0s/kubelet/cpu_manager_state", "type": "File"}
    assert volumes["dbus"] == {"path": "/run/dbus", "type": ""}
    read_only = {entry["name"]: entry.get("readOnly") for entry in parts()["keeper"]["volumeMounts"]}
    assert (read_only["cpu-manager"], read_only["dbus"]) == (True, True)
    without = pod(*NAME, "--set=node.kubeletFolder=,node.dbusFolder=")
    assert not {"cpu-manager", "dbus"} & {entry["name"] for entry in without["volumes"]}
    for container in containers(without):
        assert not {"cpu-manager", "dbus"} & {mount["name"] for mount in container["volumeMounts"]}


@helm_only
def test_a_slow_start_is_not_ended_by_a_probe() -> None:
    """At a load of fifty a start takes minutes: each may take five."""
    enabled = [f"--set={part}.enabled=true" for part in ("extender", "traces", "rebalancer", "console", "credit")]
    seen = set()
    for (kind, _, _), entry in objects(*enabled).items():
        for container in containers(entry["spec"]["template"]["spec"]) if kind in ("Deployment", "DaemonSet") else ():
            if "livenessProbe" not in container and container["name"] != "keeper":
                continue
            probe = container["startupProbe"]
            assert probe["failureThreshold"] * probe["periodSeconds"] >= 300, container["name"]
            assert probe["timeoutSeconds"] >= 5
            live = container.get("livenessProbe", probe)  # two minutes without an answer end it, a few slow ones do not
            assert live["failureThreshold"] * live["periodSeconds"] >= 120, container["name"]
            assert live["timeoutSeconds"] >= (15 if live is not probe else 5), container["name"]
            assert container.get("readinessProbe", probe)["timeoutSeconds"] >= 5, container["name"]
            seen.add(container["name"])
    assert {"agent", "keeper", "scheduler", "manager", "webhook", "extender", "rebalancer", "credit"} <= seen


def test_the_schema_knows_the_agents_settings() -> None:
    assert values_schema.FILE.read_text() == values_schema.schema(), "make manifests"


@helm_only
@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ("node.config.policies.best_effort=true", "best_effort"),
        ("node.config.policies.best_effort_cpu.suppress.threshold_pct=80", "threshold_pct"),
        ("node.config.policies.memory_eviction.best_effort.threshold=80", "threshold"),
        ("node.config.periodms=5", "periodms"),
        ("node.config.mode=act", "mode"),
        ("node.config.policies.burst.policy=sometimes", "policy"),
    ],
)
def test_a_misspelt_setting_of_the_agent_is_refused_before_any_node_sees_it(wrong: str, name: str) -> None:
    assert name in refusal(f"--set={wrong}")


@helm_only
def test_settings_that_an_agent_takes_pass_the_schema(tmp_path: Path) -> None:
    config = {
        "period_ms": 500,
        "reserved": {"cpu": "500m", "memory": "1Gi"},
        "policies": {
            "best_effort_cpu": {
                "suppress": {"form": "cfsQuota", "threshold_percent": 80},
                "guard": {"grow_every_us": 4_000_000},
            },
            "memory_eviction": {"best_effort": True},
            "cpu_eviction": {"used": {"threshold_percent": 80, "priority_threshold": 5999}},
            "io": False,
            "recovery": True,
        },
        "groups": [{"group": "a.slice", "name": "a/b", "qos": "LS", "objective_p99_ms": 5, "labels": {"app": "b"}}],
        "probe": {"enabled": False},
    }
    values = tmp_path / "values.yaml"
    values.write_text(json.dumps({"node": {"config": config}}))
    said = taken(tmp_path, f"--values={values}")
    assert said.period_ms == 500
    assert said.policies.recovery is not None


@helm_only
def test_the_first_week_changes_nothing() -> None:
    made = objects(SHADOW)
    names = {name for kind, _, name in made if kind in ("Deployment", "DaemonSet")}
    assert names >= {"cotenant-node", "cotenant-manager", "cotenant-traces", "cotenant-console", "cotenant-rebalancer"}
    assert not {"cotenant-scheduler", "cotenant-webhook", "cotenant-extended"} & names
    assert not {kind for kind, _, _ in made} & {
        "MutatingWebhookConfiguration",
        "PriorityClass",
        "PersistentVolumeClaim",
    }
    assert agent_config(SHADOW)["mode"] == "observe"
    assert "traces" in agent_config(SHADOW)


@helm_only
@pytest.mark.parametrize(
    "acts",
    [
        "node.mode=act",
        "node.mode=dry-run",
        "webhook.enabled=true",
        "scheduler.enabled=true",
        "manager.configNamespace=koordinator-system",
        "manager.config.colocation-config.enable=true",
        "rebalancer.config.dryRun=false",
        "rebalancer.arguments={--act}",
        "node.zones=true",
        "priorityClasses.create=true",
    ],
)
def test_the_first_week_refuses_what_acts(acts: str) -> None:
    said = refusal(SHADOW, f"--set={acts}")
    assert "profile=shadow observes only" in said
    assert (
        acts.partition("=")[0].replace("arguments", "config.dryRun").removesuffix(".colocation-config.enable") in said
    )


@helm_only
def test_credit_runs_without_a_storage_class() -> None:
    made = objects("--set=credit.enabled=true,credit.persistent=false")
    assert ("PersistentVolumeClaim", "cotenant-system", "cotenant-credit") not in made
    volumes = made["Deployment", "cotenant-system", "cotenant-credit"]["spec"]["template"]["spec"]["volumes"]
    (journal,) = (volume for volume in volumes if volume["name"] == "journal")
    assert "emptyDir" in journal


@helm_only
def test_the_default_parts_fit_a_small_node() -> None:
    """Two CPUs of which a control plane of kubeadm requests 0.95, CoreDNS included."""
    asked = 0
    for (kind, _, _), entry in objects().items():
        if kind not in ("Deployment", "DaemonSet") or "helm.sh/hook" in entry["metadata"].get("annotations", {}):
            continue
        for container in containers(entry["spec"]["template"]["spec"]):
            cpu = str(container["resources"]["requests"]["cpu"])
            milli = int(cpu.removesuffix("m")) if cpu.endswith("m") else round(float(cpu) * 1000)
            asked += milli * entry["spec"].get("replicas", 1)
    assert asked <= 2000 - 950


@helm_only
def test_the_keeper_suspends_nobody_unless_asked() -> None:
    assert not keeper()["freeze"]
    asked = parts("--set=node.freeze=true")["keeper"]
    assert keeper("--set=node.freeze=true")["freeze"] is True
    assert asked["securityContext"] == parts()["keeper"]["securityContext"]  # it takes no further right


@helm_only
def test_knobs_of_cards_are_the_keepers_where_they_are_named() -> None:
    pipe = "/run/offline-mps"
    values = f"--set=node.gpu.cards={{GPU-5ce1ab00}},node.gpu.mpsPipe={pipe},node.gpu.runtimeClass=nvidia"
    plain, asked = parts()["keeper"], parts(values)["keeper"]
    assert keeper(values)["gpu"] == ("GPU-5ce1ab00",)
    assert str(keeper(values)["mps"]) == pipe
    rights = [part["securityContext"]["capabilities"]["add"] for part in (plain, asked)]
    assert rights[1] == [*rights[0], "SYS_ADMIN"]
    assert {"name": "mps", "mountPath": pipe} in asked["volumeMounts"]
    whole = pod(*NAME, values)
    assert whole["runtimeClassName"] == "nvidia"
    assert {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"} in asked["env"]
    assert "runtimeClassName" not in pod(*NAME)
    assert "node.gpu.cards.0: Does not match pattern" in refusal("--set=node.gpu.cards={card-0}")


@helm_only
def test_time_slices_and_mig_are_set_where_asked_and_mig_where_the_kubelet_can_be_asked() -> None:
    cards = "--set=node.gpu.cards={GPU-5ce1ab00}"
    assert (keeper(cards)["gpu_timeslices"], keeper(cards)["gpu_mig"]) == (False, False)
    asked = keeper(cards, "--set=node.gpu.timeSlices=true,node.gpu.mig=true,node.gpu.runtimeClass=nvidia")
    assert (asked["gpu_timeslices"], asked["gpu_mig"]) == (True, True)
    assert "need node.gpu.cards" in refusal("--set=node.gpu.mig=true")
    assert "node.gpu.mig needs node.gpu.runtimeClass" in refusal(cards, "--set=node.gpu.mig=true")


@helm_only
def test_beside_gpus_the_keeper_asks_the_kubelet_who_was_given_which() -> None:
    mount = {"name": "pod-resources", "mountPath": "/var/lib/kubelet/pod-resources", "readOnly": True}
    values = "--set=node.gpu.runtimeClass=nvidia,node.kubeletFolder=/mnt/kubelet/"
    assert mount in parts(values)["keeper"]["volumeMounts"]
    assert mount not in parts(values)["agent"]["volumeMounts"]
    (volume,) = (volume for volume in pod(*NAME, values)["volumes"] if volume["name"] == "pod-resources")
    assert volume["hostPath"] == {"path": "/mnt/kubelet/pod-resources", "type": "Directory"}
    for others in ("--set=node.gpu.runtimeClass=nvidia,node.kubeletFolder=", "--set=node.waits=true"):
        assert "pod-resources" not in {volume["name"] for volume in pod(*NAME, others)["volumes"]}


@helm_only
def test_the_hook_reaches_the_daemon_that_holds_shares(tmp_path: Path) -> None:
    hook = "node.config.runtime_hook"
    values = f"--set=node.nri.enabled=true,{hook}.devices=true,{hook}.mps_pipe=/run/mps,node.gpu.runtimeClass=nvidia"
    both = (values, f"--set={hook}.believed_namespaces={{ml}},{hook}.mps_shared_memory=/run/mps-shm")
    assert str(taken(tmp_path, *both).runtime_hook.mps_pipe) == "/run/mps"
    spec = pod(*NAME, *both)
    (nri,) = (part for part in spec["containers"] if part["name"] == "nri")
    assert {"name": "mps-shares", "mountPath": "/run/mps"} in nri["volumeMounts"]
    assert {"name": "mps-memory", "mountPath": "/run/mps-shm", "readOnly": True} in nri["volumeMounts"]
    assert {volume["name"] for volume in spec["volumes"]} >= {mount["name"] for mount in nri["volumeMounts"]}
    (volume,) = (volume for volume in spec["volumes"] if volume["name"] == "mps-shares")
    assert volume["hostPath"] == {"path": "/run/mps", "type": "DirectoryOrCreate"}
    assert "NVIDIA_DRIVER_CAPABILITIES" in {entry["name"] for entry in nri["env"]}
