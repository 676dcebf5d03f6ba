"""Which parts an agent has, by its configuration: where pods are found, who evicts, who asks the kubelet."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.fakes.node.kubepods import layout
from tests.fakes.servers.told_watches import nobody

from cotenant.drivers.cri.discovery import CriPods
from cotenant.drivers.http.address import Address
from cotenant.drivers.kubelet.podinfo import PodInfoFolder
from cotenant.drivers.kubelet.tree import KubepodsTree
from cotenant.engine.node.mode import AgentMode
from cotenant.engine.node.recovery.settings import RecoverySettings
from cotenant.model.machine.knob import Knob
from cotenant.services.agent import wiring
from cotenant.services.agent.discovery.cluster_pods import ClusterPods
from cotenant.services.agent.main import _from_this_host
from cotenant.services.agent_settings.plain_groups import PlainEviction


def config(**changed: Any) -> Any:
    sources = {"kubepods": False, "runtime": None, "pod_info": None, "docker": None} | changed.pop("sources", {})
    usual: dict[str, Any] = {
        "node": "n1",
        "mode": AgentMode.ACT,
        "cluster": None,
        "kubelet_groups": None,
        "seal_certificate": None,
        "plain_eviction": PlainEviction.TOLD,
        "writable": ("best-effort",),
        "cpu_manager_state": Path("/var/lib/kubelet/cpu_manager_state"),
        "traces": SimpleNamespace(url="", token_file=None, ca_file=None),
    }
    return SimpleNamespace(**(usual | changed), sources=SimpleNamespace(**sources))


def test_a_card_is_only_asked_for_where_the_settings_name_it() -> None:
    assert wiring.knobs_of_cards(None) == wiring.knobs_of_cards(RecoverySettings()) == frozenset()
    assert wiring.knobs_of_cards(RecoverySettings(cards=("GPU-a",))) == {Knob.GPU_POWER}
    assert wiring.knobs_of_cards(RecoverySettings(threads_percent=30)) == {Knob.MPS_THREADS}


def test_what_the_kubelet_gives_is_read_where_the_configuration_says(tmp_path: Path) -> None:
    """A kubelet may keep its files elsewhere (--root-dir)."""
    state = tmp_path / "cpu_manager_state"
    state.write_text('{"policyName":"static","defaultCpuSet":"0","entries":{"u":{"c":"1"}},"checksum":1}')
    of_groups = cast(Any, SimpleNamespace(version=lambda controller: 1))
    facts = wiring._kubelet(config(cpu_manager_state=state), of_groups, cast(Any, None), None, None)()
    assert (facts.is_static, facts.given_cpus) == (True, (("u", (1,)),))


@pytest.mark.parametrize(
    ("asked", "in_cluster", "sources"),
    [
        ({}, False, {}),
        ({"kubepods": True}, False, {"kubepods": KubepodsTree}),
        ({"pod_info": Path("/pods")}, False, {"pod.info": PodInfoFolder, "kubepods": KubepodsTree}),
        ({"runtime": Path("/run/cri.sock")}, False, {"runtime": CriPods}),
        (
            {"runtime": Path("/run/cri.sock"), "pod_info": Path("/pods"), "kubepods": True},
            False,
            {"pod.info": PodInfoFolder, "runtime": CriPods},
        ),
        ({}, True, {"cluster": ClusterPods}),
        (
            {"pod_info": Path("/pods"), "runtime": Path("/run/cri.sock")},
            True,
            {"cluster": ClusterPods, "pod.info": PodInfoFolder},
        ),
    ],
)
def test_pods_are_found_by_every_source_in_the_order_of_their_precedence(
    tmp_path: Path, asked: dict[str, Any], in_cluster: bool, sources: dict[str, type]
) -> None:
    async def main() -> None:
        async with AsyncExitStack() as stack:
            client = nobody() if in_cluster else None
            of = layout(tmp_path, 2)
            found, background, tree = wiring._sources(config(sources=asked), of, stack, client, asyncio.Event())
            assert {name: type(source) for name, source in found.items()} == sources
            assert list(found) == list(sources)
            assert list(background) == (["pods of the cluster"] if in_cluster else [])
            assert (tree is None) is (not sources)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("changed", "asks"),
    [
        ({}, False),
        ({"sources": {"kubepods": True}}, True),
        ({"cluster": SimpleNamespace()}, True),
        ({"kubelet_groups": "all"}, True),
        ({"sources": {"docker": Path("/run/docker.sock")}}, False),
    ],
)
def test_a_node_without_a_kubelets_groups_is_a_fault_only_where_pods_are_expected(
    changed: dict[str, Any], asks: bool
) -> None:
    assert wiring._asks_for_kubelet(config(**changed)) is asks


@pytest.mark.parametrize(
    ("mode", "plain", "kills"),
    [
        (AgentMode.ACT, PlainEviction.KILL, True),
        (AgentMode.ACT, PlainEviction.TOLD, False),
        (AgentMode.DRY_RUN, PlainEviction.KILL, False),
        (AgentMode.OBSERVE, PlainEviction.KILL, False),
    ],
)
def test_only_an_agent_that_acts_and_is_told_to_kill_does(
    monkeypatch: pytest.MonkeyPatch, mode: AgentMode, plain: PlainEviction, kills: bool
) -> None:
    seen: list[tuple[Any, ...]] = []
    monkeypatch.setattr(wiring, "ApiEvictor", lambda *given: seen.append(given))
    monkeypatch.setattr(wiring, "Groups", lambda of: SimpleNamespace(kill="kills"))
    stack = cast(AsyncExitStack, SimpleNamespace(enter_context=lambda context: context))
    wiring._evictor(config(mode=mode, plain_eviction=plain), cast(Any, "l"), stack, cast(Any, "api"), cast(Any, "held"))
    assert seen == [("api", "kills" if kills else None, ("best-effort",), "held")]


def test_without_a_cluster_everything_may_act_and_no_object_is_read() -> None:
    background: dict[str, Any] = {}
    assert wiring._held(wiring._permissions(None, background), "shop", 0.0) == ""
    assert wiring._cluster_node(config(), None, background) is None
    assert background == {}
    assert wiring._permissions(nobody(), background) is not None
    assert wiring._cluster_node(config(), nobody(), background) is not None
    assert list(background) == ["what may act", "node object"]


@pytest.mark.parametrize(
    ("client", "cluster", "asks"),
    [
        (None, None, False),
        ("client", None, False),
        ("client", SimpleNamespace(kubelet_configz=False), False),
        (None, SimpleNamespace(kubelet_configz=True), False),
        ("client", SimpleNamespace(kubelet_configz=True), True),
    ],
)
def test_the_kubelets_configuration_is_asked_for_where_that_is_wanted(
    tmp_path: Path, client: Any, cluster: Any, asks: bool
) -> None:
    made = wiring._kubelet(config(cluster=cluster), layout(tmp_path, 2), cast(Any, None), client, None)
    assert (made._configz is not None, made._keeper) == (asks, None)
    assert made.asks is asks


def test_nothing_is_posted_and_no_trace_process_asked_without_an_address() -> None:
    async def main() -> None:
        async with AsyncExitStack() as stack:
            for none in ((), "", None):
                assert await wiring._poster(none, None, None, stack) is None
            assert await wiring._poster(("http://127.0.0.1:1",), None, None, stack) is not None
            assert wiring._traces(config(), stack) is None
            given = SimpleNamespace(url="http://127.0.0.1:1", token_file=None, ca_file=None)
            assert wiring._traces(config(traces=given), stack) is not None
            assert wiring._docker(config(), stack) == {}
            assert await wiring._client(config(), stack) is None

    asyncio.run(main())


@pytest.mark.parametrize(
    ("listens", "asked"),
    [
        (Address("127.0.0.1", 7), "127.0.0.1:7"),
        (Address("0.0.0.0", 7), "127.0.0.1:7"),
        (Address("::", 7), "[::1]:7"),
        (Address("::1", 7), "[::1]:7"),
        (Address("10.0.0.1", 7), "10.0.0.1:7"),
        (Address("", 0, "/run/agent.sock"), "unix:/run/agent.sock"),
    ],
)
def test_a_process_of_this_host_reaches_what_listens_everywhere(listens: Address, asked: str) -> None:
    assert _from_this_host(listens) == asked
