"""What deploy/node/ says is what keeper and agent take."""

from __future__ import annotations

import shlex
from configparser import RawConfigParser
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.fakes.command_options import options

from cotenant.cli.main import app
from cotenant.drivers.kubelet.roots import KubeletGroups
from cotenant.services.agent_settings.config import AgentConfig, read_config
from cotenant.services.keeper.keeper_arguments import KeeperArguments
from cotenant.services.keeper.privileges import KernelCapability, needed
from cotenant.services.sockets.peers import peers_of

NODE = Path(__file__).parents[3] / "deploy/node"
UNITS = sorted(NODE.glob("*.service"))


def documents() -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all((NODE / "daemonset.yaml").read_text()) if document]


def pod() -> dict[str, Any]:
    (daemons,) = (document for document in documents() if document["kind"] == "DaemonSet")
    spec: dict[str, Any] = daemons["spec"]["template"]["spec"]
    return spec


def containers() -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in (*pod()["initContainers"], *pod()["containers"])}


def arguments(tokens: list[str]) -> dict[str, Any]:
    """By the command's own parser: an option that it does not know raises."""
    command, bound, _ = app.parse_args(tokens, exit_on_error=False, print_error=False)
    assert command.__name__ == tokens[0]
    return options(bound)


def config(tmp_path: Path) -> AgentConfig:
    (settings,) = (document for document in documents() if document["kind"] == "ConfigMap")
    path = tmp_path / "agent.yaml"
    path.write_text(settings["data"]["agent.yaml"])
    return read_config(path)


def unit(path: Path) -> RawConfigParser:
    parser = RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(path)
    return parser


def mounts(container: dict[str, Any]) -> dict[str, bool]:
    return {mount["mountPath"]: not mount.get("readOnly", False) for mount in container["volumeMounts"]}


def test_agent_and_keeper_of_the_daemonset_mean_the_same_groups_socket_and_user(tmp_path: Path) -> None:
    both = containers()
    keeper, agent = arguments(both["keeper"]["args"]), arguments(both["agent"]["args"])
    said = config(tmp_path)
    assert keeper["kubelet_groups"] == said.kubelet_groups == KubeletGroups.BEST_EFFORT  # each node finds its own
    assert keeper.get("root", ()) == said.writable == ()
    assert (said.policies.own_cpus, said.policies.burst) == (None, None)  # the keeper may not write services' groups
    assert (keeper["socket"], keeper["cgroup_root"]) == (said.keeper, said.cgroup_root)
    assert keeper["allow_user"] == (str(both["agent"]["securityContext"]["runAsUser"]),)
    assert agent["config"] == Path("/etc/cotenant/agent.yaml")
    assert said.cluster is not None


def test_only_the_keeper_writes_and_it_has_no_more_than_it_uses() -> None:
    both = containers()
    assert mounts(both["keeper"])["/host/cgroup"]
    assert not mounts(both["agent"])["/host/cgroup"]
    assert str(arguments(both["keeper"]["args"])["state_dir"]) in mounts(both["keeper"])
    assert both["keeper"]["securityContext"]["capabilities"] == {
        "drop": ["ALL"],
        "add": ["SYS_RESOURCE"],
    }
    assert arguments(both["keeper"]["args"]).get("interface", ()) == ()
    assert both["agent"]["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert not any("serviceaccount" in path for path in mounts(both["keeper"]))


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_starts_a_command_with_options_that_it_has(path: Path) -> None:
    command, *tokens = shlex.split(unit(path)["Service"]["ExecStart"])
    assert command == "/opt/cotenant/bin/cotenant"
    arguments(tokens)


def test_the_units_and_the_plain_configuration_fit_together() -> None:
    keeper_unit, agent_unit = (unit(NODE / f"cotenant-{name}.service")["Service"] for name in ("keeper", "agent"))
    keeper = arguments(shlex.split(keeper_unit["ExecStart"])[1:])
    said = read_config(NODE / "agent.yaml")
    assert keeper["root"] == said.writable
    assert keeper["socket"] == said.keeper
    assert keeper["allow_user"] == (agent_unit["User"],)
    assert (NODE / "cotenant.sysusers.conf").read_text().split("\n")[1].split()[1] == agent_unit["User"]
    assert keeper_unit["CapabilityBoundingSet"] == "CAP_SYS_RESOURCE"
    assert keeper_unit["SupplementaryGroups"] == agent_unit["Group"]


def test_the_keepers_socket_can_be_given_to_the_agents_group_without_a_capability() -> None:
    both = containers()
    peers = peers_of(arguments(both["keeper"]["args"])["allow_user"], ())
    assert peers.socket_group == both["keeper"]["securityContext"]["runAsGroup"]
    assert peers.socket_group == both["agent"]["securityContext"]["runAsGroup"]


def test_a_capability_is_needed_only_where_an_argument_calls_for_it() -> None:
    assert needed(KeeperArguments()) == {KernelCapability.SYS_RESOURCE, KernelCapability.DAC_OVERRIDE}
    of_zones = set(KernelCapability) - {
        KernelCapability.SYS_RESOURCE,
        KernelCapability.DAC_OVERRIDE,
        KernelCapability.NET_ADMIN,
    }
    assert {
        KernelCapability.BPF,
        KernelCapability.PERFMON,
        KernelCapability.SYS_ADMIN,
        KernelCapability.SYS_CHROOT,
    } <= of_zones
    assert needed(KeeperArguments(interfaces=("eth0",))) == set(KernelCapability) - of_zones
    assert needed(KeeperArguments(idle_slice_ms=1)) == needed(KeeperArguments()) | {KernelCapability.SYS_NICE}
    assert needed(KeeperArguments(gpus=("GPU-a",))) == needed(KeeperArguments()) | {KernelCapability.SYS_ADMIN}
    assert needed(KeeperArguments(zones=True)) == needed(KeeperArguments()) | of_zones
