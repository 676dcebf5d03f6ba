"""The document that the project's pages share: the console's colours, and tables that a narrow screen can show."""

import re
from importlib.resources import files
from pathlib import Path

from cotenant.lab.report.document import Heading, Section, cards_table, document

CONSOLE = Path(__file__).parents[3] / "console" / "src" / "style.css"


def variables(style: str, opening: str) -> dict[str, str]:
    """The custom properties and the type of the first block after `opening`."""
    block = style.partition(opening)[2].partition("}")[0]
    return dict(re.findall(r"(--[\w-]+|font): ([^;]+);", block))


def test_colours_and_type_are_those_of_the_console() -> None:
    console = CONSOLE.read_text()
    ours = (files("cotenant.lab.report") / "assets" / "report.css").read_text()
    dark = ours.partition("prefers-color-scheme: dark")[2]
    for theirs, mine in (
        (variables(console, ":root {"), variables(ours, ":root {")),
        (variables(console, ':root[data-theme="dark"] {'), variables(dark, ":root {")),
    ):
        shared = theirs.keys() & mine.keys()
        assert shared >= {"--bg", "--card", "--ink", "--soft", "--line", "--tint", "--accent", "--good", "--warn"}
        assert {name: mine[name] for name in shared} == {name: theirs[name] for name in shared}
    assert variables(console, ":root {")["font"] == variables(ours, ":root {")["font"]


def test_a_row_of_a_short_table_can_be_shown_as_a_card() -> None:
    table = cards_table(("profile", "missed %"), (("theirs", "3"), ("ours", "<1")), ours=("ours",))
    assert table.count('data-label="missed %"') == 2  # a card has no heading row
    assert table.count("<tr class=ours>") == 1
    assert "&lt;1" in table


def test_a_document_without_figures_has_no_library_and_escapes_its_words() -> None:
    text = document(
        Heading("cotenant", "a <b>", "a <b>", "<lead>", "<end>"), (Section("one", "One & all", "<p>x</p>"),), (), {}
    )
    assert len(text) < 40_000
    assert 'name="viewport"' in text
    assert '<a href="#one">One &amp; all</a>' in text
    assert not re.search(r"<(lead|end|b)>", text)
