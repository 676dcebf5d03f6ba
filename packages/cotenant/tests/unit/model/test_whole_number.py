"""Numbers of kernel files: 64 bits at most, and garbage of any length is no number."""

from __future__ import annotations

import pytest

from cotenant.drivers.cgroup import parsing
from cotenant.drivers.proc.host import network_bytes, used_disks
from cotenant.drivers.proc.pressure import parse_pressure
from cotenant.model.whole_number import whole_number

LONG = b"4" * 5000  # more digits than Python's int takes


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *((b"0", 0), (b"18446744073709551615", 2**64 - 1), (b"", None), (b"-1", None), (b"1 ", None), (LONG, None)),
        *(("7", 7), ("\u00b2", None), ("\u0664", None), ("\udcf5", None)),
    ],
)
def test_whole_number(text: bytes | str, value: int | None) -> None:
    assert whole_number(text) == value


def test_no_reader_fails_at_a_number_that_is_too_long() -> None:
    assert parsing.number(LONG + b"\n") is None
    assert parsing.field(b"usage_usec " + LONG + b"\n", b"usage_usec ") is None
    assert parsing.io_stat(b"8:0 rbytes=" + LONG + b"\n") is None
    assert parsing.throttle_bytes(b"8:0 Read " + LONG + b"\n") is None
    assert parsing.cpu_max_m(LONG + b" 100000\n") == (False, None)
    assert parsing.cpu_max_m(b"100000 " + LONG + b"\n") == (False, None)
    assert parse_pressure(b"some avg10=0.00 total=" + LONG + b"\n") is None
    long = LONG.decode()
    assert network_bytes(f"a\nb\n  eth0: {long} 2 0 0 0 0 0 0 200 3\n") is None
    assert used_disks(f"   8       0 sda 100 0 {long} 30 40 0 800 60 0 70\n") is None
