"""What `cotenant up` does with options that are left out."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fakes.command_options import options

from cotenant.cli.main import app
from cotenant.model.errors import InvalidInput
from cotenant.policy.overcommit.strategy import KEY, read_config
from cotenant_local.up.config import NODES_FILE, USUAL_NODES, UpConfig, usual_nodes
from cotenant_local.up.console import Console
from cotenant_local.up.lending import POLICIES, config_map
from cotenant_local.up.node_metrics import period_s
from cotenant_local.up.up_arguments import UpArguments, configured


def test_a_new_cluster_has_nodes_and_an_old_one_as_many_as_before(tmp_path: Path) -> None:
    assert usual_nodes(tmp_path) == USUAL_NODES > 0
    (tmp_path / NODES_FILE).write_text("37\n")
    assert usual_nodes(tmp_path) == 37
    (tmp_path / NODES_FILE).write_text("0\n")
    assert usual_nodes(tmp_path) == 0
    (tmp_path / NODES_FILE).write_text("many\n")
    assert usual_nodes(tmp_path) == USUAL_NODES


def test_the_scheduler_serves_pods_that_name_no_scheduler_unless_it_is_turned_off(tmp_path: Path) -> None:
    assert UpConfig(tmp_path).scheduler_names() == ("cotenant", "default-scheduler")
    config = UpConfig(tmp_path, is_default_scheduler=False, more_names=("gpu", "batch=best-fit"))
    assert config.scheduler_names() == ("cotenant", "gpu", "batch")
    options = config.scheduler_options()
    passed = [options[at + 1] for at, word in enumerate(options) if word == "--scheduler-name"]
    assert passed == ["cotenant", "gpu", "batch=best-fit"]


@pytest.mark.parametrize("names", [("",), ("My_Own",), ("cotenant",), ("cotenant=best-fit",), ("b=best",)])
def test_bad_scheduler_names_are_refused_before_anything_starts(names: tuple[str, ...], tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="--scheduler-name"):
        UpConfig(tmp_path, more_names=names)


def test_the_scheduler_is_told_to_give_enforced_shares_only(tmp_path: Path) -> None:
    for asked in (False, True):
        given = configured(UpArguments(only_enforced_gpu_shares=asked), tmp_path).scheduler_options()
        _, bound, _ = app.parse_args(["scheduler", *given], exit_on_error=False, print_error=False)
        assert options(bound).get("only_enforced_gpu_shares", False) is asked


def test_the_scheduler_is_told_to_look_at_neighbours_on_cards(tmp_path: Path) -> None:
    for asked in (False, True):
        given = configured(UpArguments(gpu_neighbours=asked), tmp_path).scheduler_options()
        _, bound, _ = app.parse_args(["scheduler", *given], exit_on_error=False, print_error=False)
        assert options(bound).get("gpu_neighbours", False) is asked


def test_the_console_shows_the_fleet_that_is_named(tmp_path: Path) -> None:
    arguments = Console(tmp_path, tmp_path / "kubeconfig", 0, "text", fleet="local").child().arguments
    assert arguments[arguments.index("--fleet") + 1] == "local"
    assert "--fleet" not in Console(tmp_path, tmp_path / "kubeconfig", 0, "text").child().arguments
    assert UpConfig(tmp_path, has_console=True, fleet="tls://bus:4222").fleet
    for has_console, fleet, expected in ((False, "local", "a console"), (True, "bus:4222", "nats://HOST:PORT")):
        with pytest.raises(InvalidInput, match=expected):
            UpConfig(tmp_path, has_console=has_console, fleet=fleet)


@pytest.mark.parametrize("policy", POLICIES)
def test_the_manager_reads_the_config_map_that_lends_from_the_start(policy: str) -> None:
    read = read_config(config_map(policy)["data"][KEY])
    assert (read.cluster.enable, read.cluster.cpu_calculate_policy) == (True, policy)


@pytest.mark.parametrize(("lend", "manager"), [("peak", False), ("requests", True)])
def test_lending_needs_a_manager_and_a_known_policy(lend: str, manager: bool, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="--lend"):
        UpConfig(tmp_path, has_manager=manager, lend=lend)


@pytest.mark.parametrize(
    ("speed", "nodes", "seconds"),
    [(1.0, 10, 10.0), (60.0, 10, 2.0), (3600.0, 10, 1.0), (3600.0, 120, 2.0), (60.0, 240, 4.0), (60.0, 5000, 10.0)],
)
def test_simulated_nodes_measure_every_two_simulated_minutes_within_one_to_ten_seconds(
    speed: float, nodes: int, seconds: float
) -> None:
    assert period_s(speed, nodes) == seconds
