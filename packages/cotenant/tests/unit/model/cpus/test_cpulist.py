import pytest

from cotenant.model.cpus.cpulist import format_cpus, parse_cpus
from cotenant.model.errors import InvalidInput


@pytest.mark.parametrize(
    ("text", "cpus", "shortest"),
    [
        ("", (), ""),
        ("\n", (), ""),
        ("0", (0,), "0"),
        ("0-3,8", (0, 1, 2, 3, 8), "0-3,8"),
        ("8,1,0,2-3\n", (0, 1, 2, 3, 8), "0-3,8"),
        ("0,2,4-4", (0, 2, 4), "0,2,4"),
        ("1-2,2-3", (1, 2, 3), "1-3"),
    ],
)
def test_lists(text: str, cpus: tuple[int, ...], shortest: str) -> None:
    assert parse_cpus(text) == cpus
    assert format_cpus(cpus) == shortest


@pytest.mark.parametrize("text", ["a", "1-", "-1", "3-1", "0,,1", "0-99999", "1 2", "٣", "0-3:2/4", "999999999999"])
def test_what_is_no_list(text: str) -> None:
    with pytest.raises(InvalidInput, match="isolated"):
        parse_cpus(text, "isolated")
