import pytest

from cotenant.drivers.proc.pressure import parse_pressure
from cotenant.model.machine.counters import Stall


@pytest.mark.parametrize(
    ("text", "stall"),
    [
        (
            b"some avg10=1.50 avg60=0.00 avg300=0.00 total=15\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n",
            Stall(15, 7),
        ),
        (b"some avg10=0.00 avg60=0.00 avg300=0.00 total=15\n", Stall(15, 0)),  # the CPU before Linux 5.13
        (b"", None),
        (b"some avg10=0.00 avg60=0.00 avg300=0.00 total=15", None),  # cut off: 15 may have been 150
        (b"some avg10=0.00 avg60=0.00 avg300=0.00 total=15\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=", None),
        (b"some avg10=0.00\nfull avg10=0.00 total=7\n", None),
        (b"awesome total=3\n", None),
        (b"some total=-3\n", None),
    ],
)
def test_totals(text: bytes, stall: Stall | None) -> None:
    assert parse_pressure(text) == stall
