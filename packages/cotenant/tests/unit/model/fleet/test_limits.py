"""Limits of I/O and of networks: what people write, and what is held together in one knob."""

from __future__ import annotations

import pytest

from cotenant.model.errors import InvalidInput
from cotenant.model.fleet.limits import IoWish, io_value, shown_limit, wanted_limits
from cotenant.model.machine.knob import Knob


def number_of(name: str) -> str:
    return {"vda": "254:0"}.get(name, name)


@pytest.mark.parametrize(
    ("name", "text", "knob", "value", "shown"),
    [
        ("net-up", "20Mbit", Knob.NETWORK_RATE, "20000000", "net-up=20Mbit"),
        ("net-up", "500kbit/s", Knob.NETWORK_RATE, "500000", "net-up=500kbit"),
        ("idle", "1", Knob.CPU_IDLE, "1", "idle=1"),
        ("weight", "50", Knob.CPU_WEIGHT, "50", "weight=50"),
        ("delay", "20ms", Knob.NETWORK_DELAY, "20000", "delay=20ms"),
        ("loss", "0.05%", Knob.NETWORK_LOSS, "500", "loss=0.05%"),
    ],
)
def test_a_limit_is_read_and_shown(name: str, text: str, knob: Knob, value: str, shown: str) -> None:
    assert wanted_limits({name: text}, experiments=name in ("delay", "loss")).values == {knob: value}
    assert shown_limit(knob, value) == shown


@pytest.mark.parametrize("limits", [{"delay": "20ms"}, {"loss": "1%"}, {"cpu@vda": "1"}, {"net-up": "20"}])
def test_what_is_no_usual_limit_is_refused(limits: dict[str, str]) -> None:
    with pytest.raises(InvalidInput):
        wanted_limits(limits)


@pytest.mark.parametrize("limits", [{"cpu": "1"}, {"loss": "100%"}, {"delay": "1h"}])
def test_what_is_no_experiment_is_refused(limits: dict[str, str]) -> None:
    with pytest.raises(InvalidInput):
        wanted_limits(limits, experiments=True)


def test_limits_of_io_are_added_to_what_is_held() -> None:
    held = io_value("", wanted_limits({"io-write": "1MiB"}).io, ("254:0", "8:0"), number_of)
    assert held.splitlines() == [
        "8:0 rbps=max wbps=1048576 riops=max wiops=max",
        "254:0 rbps=max wbps=1048576 riops=max wiops=max",
    ]
    held = io_value(held, wanted_limits({"io-read-ops@vda": "100", "io-write@8:0": ""}).io, (), number_of)
    assert held == "254:0 rbps=max wbps=1048576 riops=100 wiops=max"
    assert shown_limit(Knob.IO_MAX, held) == "io-write@254:0=1Mi io-read-ops@254:0=100"
    assert io_value(held, [IoWish("wbps", "", None), IoWish("riops", "", None)], (), number_of) == ""


def test_without_a_disk_one_is_to_be_named() -> None:
    with pytest.raises(InvalidInput, match="name it"):
        io_value("", wanted_limits({"io-write": "1Mi"}).io, (), number_of)
