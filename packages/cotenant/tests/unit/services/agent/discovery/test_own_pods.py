"""Which pod is the agent's own."""

from __future__ import annotations

import pytest

from cotenant.model.machine.node_pod import NodePod
from cotenant.services.agent.discovery.own_pods import OwnPods

AGENT = NodePod("uid-agent", "cotenant-node", "cotenant-node-x", "kubepods/burstable/poduid-agent")
LIKE_IT = NodePod("uid-hog", "cotenant-node", "cotenant-node-x", "kubepods/burstable/poduid-age")
WITHOUT_GROUP = NodePod("uid-other", "shop", "web", "")


@pytest.mark.parametrize(
    "own",
    [
        OwnPods(("kubepods/burstable/poduid-agent/0123",)),
        OwnPods(("kubepods/burstable/poduid-agent",)),
        OwnPods((), "uid-agent"),
    ],
)
def test_own_is_the_pod_of_this_process_and_no_pod_that_looks_like_it(own: OwnPods) -> None:
    marked = own.marked((AGENT, LIKE_IT, WITHOUT_GROUP))
    assert [pod.ours for pod in marked] == [True, False, False]


def test_a_process_that_is_in_no_pod_has_none() -> None:
    pods = (AGENT, LIKE_IT, WITHOUT_GROUP)
    assert OwnPods(("system.slice/cotenant-agent.service",)).marked(pods) == pods
    assert OwnPods(()).marked(pods) == pods


def test_a_mark_that_no_longer_holds_is_taken_away() -> None:
    marked = OwnPods((), "uid-agent").marked((AGENT,))
    assert not OwnPods(()).marked(marked)[0].ours
