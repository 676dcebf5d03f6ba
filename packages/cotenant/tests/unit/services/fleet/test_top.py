"""Rows of a fleet's figures: by which figure they are sorted, and that every page is asked for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.model.errors import InvalidInput
from cotenant.model.fleet.figures import ContainerFigures, HostFigures, Measured, Top, TopPage
from cotenant.services.fleet.top import SORTS, check_sort, every_page, rows

NOTHING, SOME, MOST = ContainerFigures("c-nothing"), ContainerFigures("b-some"), ContainerFigures("a-most")


def host(*containers: ContainerFigures, name: str = "h") -> Measured:
    return Measured(name, f"host-{name}", 1.0, HostFigures(), containers)


@pytest.mark.parametrize(
    ("sort", "fields"),
    [
        ("cpu", ("cpu_milli",)),
        ("system", ("system_milli",)),
        ("memory", ("memory_bytes",)),
        ("load", ("load_1",)),
        ("network", ("received_bytes", "sent_bytes")),
        ("disk", ("read_bytes", "written_bytes")),
        ("restarts", ("restarts",)),
        ("oom", ("oom_kills",)),
    ],
)
def test_those_with_the_most_come_first_and_the_unmeasured_last(sort: str, fields: tuple[str, ...]) -> None:
    assert check_sort(sort) == sort
    for field in fields:
        some, most = replace(SOME, **{field: 3}), replace(MOST, **{field: 7})
        found = rows(TopPage((host(NOTHING, some), host(most, name="i"))), sort)
        assert [row.container for row in found] == [most, some, NOTHING]
        assert [row.host.hostname for row in found] == ["host-i", "host-h", "host-h"]
        zero = replace(MOST, **{field: 0})
        assert rows(TopPage((host(NOTHING, zero),)), sort)[0].container == zero  # nothing known is nothing
    both = replace(SOME, **dict.fromkeys(fields, 5))  # more by both than the other by one
    one = replace(MOST, **{fields[0]: 9 if len(fields) == 2 else 4})
    assert rows(TopPage((host(one, both),)), sort)[0].container == both


def test_of_equals_the_first_name_comes_first() -> None:
    found = rows(TopPage((host(NOTHING, SOME, MOST),)), "cpu")
    assert [row.container.guid for row in found] == ["a-most", "b-some", "c-nothing"]


def test_an_unknown_sort_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidInput, match=", ".join(SORTS)):
        check_sort("colour")


def test_all_pages_are_asked_for_as_one() -> None:
    pages = {
        0: TopPage((host(name="a"),), ("x",), next_start=2),
        2: TopPage((host(name="b"), host(name="c")), (), next_start=5),
        5: TopPage((), ("y",)),
    }
    asked: list[Top] = []

    def ask(wanted: Top) -> TopPage:
        asked.append(wanted)
        return pages[wanted.start]

    whole = every_page(ask, Top())
    assert [found.guid for found in whole.hosts] == ["a", "b", "c"]
    assert whole.unmeasured == ("x", "y")
    assert whole.next_start is None
    assert [wanted.start for wanted in asked] == [0, 2, 5]
