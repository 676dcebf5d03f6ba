"""Values in which NaN means "not given" equal their copies, in every version of Python."""

from __future__ import annotations

from dataclasses import replace

from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.groups.reservation import Reservation


def test_a_pod_that_is_read_again_equals_itself() -> None:
    pod = ObservedPod(Pod("p"), "u", "cotenant", 1.0)
    assert pod == replace(pod)
    assert hash(pod) == hash(replace(pod))
    assert pod != replace(pod, started_s=2.0)
    assert pod != replace(pod, node="n")
    assert pod != "u"


def test_a_reservation_that_is_read_again_equals_itself() -> None:
    reservation = Reservation("r", "u", Pod("p"))
    assert reservation == replace(reservation)
    assert reservation != replace(reservation, expires_s=5.0)
