import pytest

from cotenant.drivers.cgroup import translation as t
from cotenant.model.machine.knob_values import DeviceLimits


@pytest.mark.parametrize(("weight", "shares"), [(1, 2), (2, 20), (39, 399), (100, 1024), (10_000, 102_400)])
def test_shares_are_in_proportion_to_weights(weight: int, shares: int) -> None:
    assert t.shares_of(weight) == shares
    assert t.weight_of_shares(shares) == weight


def test_every_weight_survives_v1() -> None:
    for weight in range(1, 10_001):
        assert t.weight_of_shares(t.shares_of(weight)) == weight


@pytest.mark.parametrize(("shares", "weight"), [(2, 1), (10, 1), (512, 50), (262_144, 10_000)])
def test_shares_that_others_wrote(shares: int, weight: int) -> None:
    assert t.weight_of_shares(shares) == weight


@pytest.mark.parametrize(("weight", "bfq"), [(1, 1), (100, 100), (10_000, 1000), (500, 136)])
def test_bfq_weights_match_systemds(weight: int, bfq: int) -> None:
    assert t.bfq_weight_of(weight) == bfq


def test_a_bfq_weight_comes_back_as_the_same() -> None:
    for bfq in range(1, 1001):
        assert t.bfq_weight_of(t.weight_of_bfq(bfq)) == bfq


@pytest.mark.parametrize(("weight", "cfq"), [(1, 10), (100, 500), (200, 1000), (10_000, 1000)])
def test_cfq_weights_match_systemds(weight: int, cfq: int) -> None:
    assert t.cfq_weight_of(weight) == cfq
    assert t.weight_of_cfq(500) == 100


def test_lines_of_single_devices_do_not_hide_the_default() -> None:
    assert t.io_weight_of("io.weight", "8:0 50\ndefault 70\n") == 70
    assert t.io_weight_of("blkio.bfq.weight", "100\n") == 100


def test_v1s_limits_of_devices_both_ways() -> None:
    limits = DeviceLimits("8:0", rbps=5, wiops=7)
    lines = t.throttle_lines(limits)
    assert lines == ("8:0 5", "8:0 0", "8:0 0", "8:0 7")
    assert t.device_limits_of(("8:0 5\n", "", "", "8:0 7\n")) == (limits,)


@pytest.mark.parametrize(
    ("text", "value"), [("9223372036854771712", "max"), ("9223372036854710272", "max"), ("4096", "4096")]
)
def test_v1s_value_for_no_limit_depends_on_the_page_size(text: str, value: str) -> None:
    assert t.memory_max_of(text) == value
