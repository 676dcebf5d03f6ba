"""Volume limits against a plain count over random sequences of events."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.few import examples, first_cases

from cotenant.engine.encoding.encoder import Encoder
from cotenant.engine.state.storage.attach_limits import AttachLimits
from cotenant.model.cluster.labels import Labels
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import Attachment, NodeStorage
from cotenant.model.resources import Amounts

SIZE = Amounts.of({"cpu": 1000, "memory": 1000})
DRIVERS, HANDLES, NODES = ("d", "e"), ("h0", "h1", "h2"), ("n0", "n1", "n2")

volumes = st.frozensets(st.builds(Attachment, st.sampled_from(DRIVERS), st.sampled_from(HANDLES)), max_size=4)
limits = st.dictionaries(st.sampled_from(DRIVERS), st.integers(0, 3)).map(lambda found: tuple(sorted(found.items())))
events = st.one_of(
    st.tuples(st.just("assign"), st.integers(0, 5), volumes, st.sampled_from(NODES)),
    st.tuples(st.just("unassign"), st.integers(0, 5)),
    st.tuples(st.just("storage"), st.builds(NodeStorage, st.sampled_from(NODES), limits, volumes)),
    st.tuples(st.just("labels"), st.sampled_from(NODES), st.sampled_from(("a", "b"))),
    st.tuples(st.just("ask"), volumes),
)


class Plain:
    """Every question is answered from all pods and nodes."""

    def __init__(self) -> None:
        self.pods: dict[int, tuple[frozenset[Attachment], str]] = {}
        self.storage = {name: NodeStorage(name) for name in NODES}

    def fits(self, name: str, wanted: frozenset[Attachment]) -> bool:
        storage = self.storage[name]
        held = {attachment for had, at in self.pods.values() if at == name for attachment in had} | storage.attached
        for driver, limit in storage.limits:
            new = {attachment for attachment in wanted - held if attachment.driver == driver}
            if new and len([attachment for attachment in held if attachment.driver == driver]) + len(new) > limit:
                return False
        return True


@pytest.mark.slow
@settings(max_examples=examples(200), deadline=None)
@given(st.lists(events, max_size=40))
def test_limits_agree_with_a_plain_count(steps: list[tuple[object, ...]]) -> None:
    encoder = Encoder(half_node_cores=1.0)
    for name in NODES:
        encoder.add_node(Node(name, SIZE))
    counted, plain = AttachLimits(encoder), Plain()
    for step in steps:
        match step:
            case ("assign", int(pod), frozenset(had), str(name)) if pod not in plain.pods:
                counted.assign(had, encoder.node_rows[name])
                plain.pods[pod] = had, name
            case ("unassign", int(pod)) if pod in plain.pods:
                had, name = plain.pods.pop(pod)
                counted.unassign(had, encoder.node_rows[name])
            case ("storage", NodeStorage() as storage):
                counted.set_storage(storage)
                plain.storage[storage.node] = storage
            case ("labels", str(name), str(value)):
                encoder.update_node(Node(name, SIZE, Labels.of({"zone": value})))
            case ("ask", frozenset(wanted)):
                found = counted.feasible(wanted)
                for name in NODES:
                    fits = found is None or bool(found[encoder.node_rows[name]])
                    assert fits == plain.fits(name, wanted), (name, wanted)


test_first_cases = first_cases(
    test_limits_agree_with_a_plain_count,
    most=3,
)
