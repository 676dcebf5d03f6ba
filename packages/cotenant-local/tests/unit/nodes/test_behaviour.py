"""What a pod's manifest says of its behaviour."""

from __future__ import annotations

import msgspec

from cotenant_local.controllers.views.pods import PodObjectView
from cotenant_local.nodes.behaviour import behaviour_of, requests_of


def test_what_is_lent_counts_as_cpu_and_memory_of_the_same_machine() -> None:
    amounts = {"kubernetes.io/batch-cpu": "1500", "kubernetes.io/batch-memory": "2Gi"}
    container = {"name": "c", "image": "i", "resources": {"requests": amounts, "limits": amounts}}
    pod = msgspec.convert(
        {"metadata": {"name": "p", "namespace": "n"}, "spec": {"containers": [container]}}, PodObjectView
    )
    behaviour, wrong = behaviour_of(pod, requests_of(pod))
    assert wrong == ""
    assert (behaviour.cpu_milli, behaviour.memory_bytes) == (1500, 2 << 30)
    assert behaviour.truth.use_cores == 0.5  # an ordinary pod's third
