from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.few import examples

from cotenant.model.errors import InvalidInput, Unsupported
from cotenant.model.machine.counters import LogicalCpu
from cotenant.model.zones.apart import MOST_PARTIES, ApartRule, RuleTime, Within, parties_of, words
from cotenant.policy.zone.apart import apart_table

# two cores of two threads, numbered as Linux does
MACHINE = tuple(LogicalCpu(cpu, cpu % 2, 0, 0) for cpu in range(4))
CACHE = dict.fromkeys(range(4), 0)


def test_parties_are_bytes_and_cores_their_lowest_cpu() -> None:
    rules = (
        ApartRule(("tenant-b", "tenant-a")),
        ApartRule(("web", "tenant-a"), Within.MACHINE, RuleTime.LATE),
    )
    table = apart_table(rules, MACHINE, CACHE)
    assert table.parties == ("tenant-a", "tenant-b", "web")
    assert [table.number(party) for party in ("tenant-a", "web", "", "other")] == [1, 3, 0, 0]
    core, cache, machine = table.always
    assert core[:3] == (0xFF00, 0xFF, 0)
    assert not any((*cache, *machine))
    assert table.late[2][:3] == (0xFF0000, 0, 0xFF)
    assert not any((*table.late[0], *table.late[1]))
    assert table.cores == {0: 0, 1: 1, 2: 0, 3: 1}


NAMES = [f"party-{number}" for number in range(MOST_PARTIES)]


@given(
    st.lists(
        st.builds(
            ApartRule,
            st.lists(st.sampled_from(NAMES), min_size=2, max_size=5, unique=True).map(tuple),
            st.sampled_from(Within),
            st.sampled_from(RuleTime),
        ),
        max_size=6,
    )
)
@settings(max_examples=examples(100))
def test_exclusion_is_mutual_and_only_what_a_rule_says(rules: list[ApartRule]) -> None:
    parties = parties_of(rules)
    for when in RuleTime:
        for within, level in zip(Within, words(rules, when), strict=True):
            for one, name in enumerate(parties):
                for other, rival in enumerate(parties):
                    byte = level[one] >> 8 * other & 0xFF
                    said = one != other and any(
                        {name, rival} <= set(rule.parties) and (rule.within, rule.when) == (within, when)
                        for rule in rules
                    )
                    assert byte == (0xFF if said else 0)


def test_too_many_parties_and_places_that_are_too_large_or_unknown_are_refused() -> None:
    with pytest.raises(InvalidInput, match="at most 8"):
        parties_of([ApartRule((f"a{number}", f"b{number}")) for number in range(5)])
    pair = ("a", "b")
    with pytest.raises(Unsupported, match="names the caches of CPU 3"):
        apart_table([ApartRule(pair, Within.CACHE)], MACHINE, dict.fromkeys(range(3), 0))
    large = tuple(LogicalCpu(cpu, cpu, 0, 0) for cpu in range(128))
    for within in (Within.CACHE, Within.MACHINE):
        with pytest.raises(Unsupported, match="at most 127 CPUs"):
            apart_table([ApartRule(pair, within)], large, dict.fromkeys(range(128), 0))
    assert apart_table([ApartRule(pair)], large, {}).cores[127] == 127


@pytest.mark.parametrize("parties", [(), ("a",), ("a", "a"), ("a", "B"), ("a", "")])
def test_a_rule_names_two_parties_each_once(parties: tuple[str, ...]) -> None:
    with pytest.raises(InvalidInput, match="parties"):
        ApartRule(parties)
