"""Mementos put objects back, with the identity of every container."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field

import numpy as np

from cotenant.engine.framework.memento import Memento


@dataclass(slots=True, eq=False)
class Part:
    """With slots."""

    name: str = ""
    uids: dict[str, set[str]] = field(default_factory=dict)


class Whole:
    """Without slots, sharing a container with its part."""

    def __init__(self) -> None:
        self.part = Part("a", {"x": {"1", "2"}})
        self.shared = self.part.uids["x"]
        self.row = np.arange(3)
        self.last = deque([1, 2], maxlen=2)
        self.counts = Counter({"a": 2})
        self.lists = [[1], [2]]
        self.number = 1


def test_attributes_and_contents_are_put_back_with_their_identity() -> None:
    whole = Whole()
    uids, row = whole.part.uids, whole.row
    memento = Memento((whole, whole.part))
    whole.number, whole.part.name, whole.row = 2, "b", np.zeros(9)
    row[:] = 7
    whole.shared.add("3")
    del whole.part.uids["x"]
    whole.part.uids["y"] = set()
    whole.last.append(3)
    whole.counts["a"] += 1
    whole.lists[0].append(5)
    whole.lists.append([3])
    for _ in range(2):  # any number of times
        memento.restore()
        assert (whole.number, whole.part.name) == (1, "a")
        assert whole.row is row
        assert row.tolist() == [0, 1, 2]
        assert whole.part.uids is uids
        assert uids == {"x": {"1", "2"}}
        assert uids["x"] is whole.shared
        assert (list(whole.last), whole.last.maxlen) == ([1, 2], 2)
        assert whole.counts == Counter({"a": 2})
        assert whole.lists == [[1], [2]]
        whole.shared.clear()


def test_an_object_that_is_not_given_is_left_as_it_is() -> None:
    whole = Whole()
    memento = Memento((whole,))
    whole.part.name = "b"
    whole.part = Part("c")
    memento.restore()
    assert whole.part.name == "b"


def test_containers_may_be_given_themselves() -> None:
    rows = {1, 2}
    memento = Memento((rows,))
    rows.add(3)
    memento.restore()
    assert rows == {1, 2}
