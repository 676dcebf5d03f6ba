"""Rates of pods' networks between two readings."""

from __future__ import annotations

from cotenant.engine.node.pod_networks import NetworkUse, PodNetworks
from cotenant.model.machine.node_metric import NO_SIGNALS, PodSignals


def test_a_rate_needs_two_readings_of_one_counter() -> None:
    networks = PodNetworks(uplink_bps=1_000_000)
    assert networks.measured({"a": (0, 0), "b": (50, 50)}, 10.0) == {}
    found = networks.measured({"a": (100_000, 5_000_000), "b": (40, 60), "c": (1, 1)}, 20.0)
    assert found == {"a": NetworkUse(510_000, 0.5)}  # b began again, c is new; the busier direction counts
    assert networks.measured({"a": (100_000, 5_000_000)}, 20.0) == {}  # no time has passed
    assert networks.measured({}, 30.0) == {}
    assert networks.measured({"a": (200_000, 5_000_000)}, 40.0) == {}  # it was not read at 30


def test_a_share_is_at_most_all_and_unknown_without_the_links_speed() -> None:
    for link, share in ((10, 1.0), (None, None), (0, None)):
        networks = PodNetworks(link)
        networks.measured({"a": (0, 0)}, 0.0)
        use = networks.measured({"a": (100, 0)}, 1.0)["a"]
        assert use == NetworkUse(100, share)
        assert use.added(NO_SIGNALS) == PodSignals(network_use=share, network_bps=100)
