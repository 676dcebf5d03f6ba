"""Best effort sends what services leave, less a margin."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fakes.node.node_pods import node

from cotenant.model.errors import InvalidInput
from cotenant.model.machine.node_state import GroupUse, NodeState
from cotenant.policy.nodeqos.io.network import NetworkConfig, NetworkMemory, decide, share

GBIT = 10**9
CONFIG = NetworkConfig("eth0", GBIT)


def sending(host_bits: int | None, best_effort_bits: int | None) -> NodeState:
    use = GroupUse("be", network_sent_bps=None if best_effort_bits is None else best_effort_bits // 8)
    return replace(node(network_sent_bps=None if host_bits is None else host_bits // 8), best_effort=use)


def rates(state: NodeState, config: NetworkConfig = CONFIG) -> dict[str, str]:
    verdict, _ = decide(state, config, NetworkMemory())
    assert verdict.reasons
    for reason in verdict.reasons:
        assert not reason.terms or sum(term.value for term in reason.terms) >= 0
    return {knob.target.group: knob.value for knob in verdict.knobs}


def test_heracles_ceiling() -> None:
    # services send 200 of 1000: margin max(50, 20); then 800: margin max(50, 80)
    assert rates(sending(300 * 10**6, 100 * 10**6)) == {
        "eth0/ls": "990000000 1000000000",
        "eth0/be": "10000000 750000000",
    }
    assert rates(sending(800 * 10**6, 0))["eth0/be"] == "10000000 120000000"


def test_small_changes_of_what_services_send_turn_nothing() -> None:
    seen = {rates(sending(200 * 10**6 + extra, 0))["eth0/be"] for extra in range(0, 9_000_000, 1_000_000)}
    assert len(seen) <= 2


def test_best_effort_keeps_its_guarantee() -> None:
    assert rates(sending(GBIT, 0))["eth0/be"] == "10000000 10000000"


def test_the_terms_add_up_to_the_ceiling() -> None:
    for host in (0, 100 * 10**6, 990 * 10**6):
        verdict, _ = decide(sending(host, 0), CONFIG, NetworkMemory())
        assert sum(term.value for term in verdict.reasons[0].terms) == int(verdict.knobs[1].value.split()[1])


@pytest.mark.parametrize("state", [sending(None, 1), sending(1, None), node(network_sent_bps=1)])
def test_with_unknown_traffic_the_configured_ceiling_applies(state: NodeState) -> None:
    config = NetworkConfig("eth0", GBIT, "50M", 30)
    assert rates(state, config)["eth0/be"] == "50000000 300000000"


def test_shares_as_koordinator_writes_them() -> None:
    assert share("x", 30, GBIT) == 300 * 10**6
    assert share("x", "50M", GBIT) == 50 * 10**6
    assert share("x", "2G", GBIT) == GBIT
    assert share("x", 0, GBIT) == 1
    for wrong in (101, -1, "fast", "-5M"):
        with pytest.raises(InvalidInput):
            share("x", wrong, GBIT)


@given(st.integers(0, 2 * GBIT), st.integers(0, 2 * GBIT), st.integers(0, 100), st.integers(1, 100))
def test_rates_are_in_order_and_within_the_link(host: int, best_effort: int, least: int, most: int) -> None:
    config = NetworkConfig("eth0", GBIT, min(least, most), most)
    for text in rates(sending(host, best_effort), config).values():
        low, high = map(int, text.split())
        assert 1 <= low <= high <= GBIT


def test_off_without_a_device() -> None:
    assert rates(node(), NetworkConfig()) == {}


@pytest.mark.parametrize(
    "make",
    [
        lambda: NetworkConfig("eth0"),
        lambda: NetworkConfig("a/b", GBIT),
        lambda: NetworkConfig("eth0", GBIT, 50, 40),
        lambda: NetworkConfig("eth0", GBIT, "fast"),
    ],
)
def test_configurations(make: object) -> None:
    with pytest.raises(InvalidInput):
        make()  # type: ignore[operator]


def test_an_unsupported_knob_is_reported_once() -> None:
    verdict, _ = decide(replace(sending(0, 0), supported=frozenset()), CONFIG, NetworkMemory())
    assert verdict.knobs == ()
    assert "tc.rate is desired for 2 groups" in verdict.reasons[-1].text
