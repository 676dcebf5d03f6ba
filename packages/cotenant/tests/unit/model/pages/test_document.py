"""The document that the project's pages share: the console's style and script, a policy that allows nothing else,
and tables that a narrow screen can show.
"""

import base64
import gzip
import hashlib
import re
from importlib.resources import files

import pytest

from cotenant.model.pages.document import Heading, PageSection, document, drawn
from cotenant.model.pages.figures import Axis, Chart, ChartLine, Figure
from cotenant.model.pages.wide import plain_table

EMPTY = Heading("cotenant", "a <b>", "a <b>", "<lead>", "<end>")
WICKED = "</script><img src=x onerror=alert(1)>"


def built(name: str) -> str:
    return (files("cotenant.model.pages") / "built" / name).read_text()


def test_colours_and_type_are_those_of_the_console() -> None:
    console = (files("cotenant.services.console") / "page" / "assets" / "console.css").read_text()
    (first,) = {text[: text.index("}")] for text in (console, built("report.css"))}  # one block of both
    assert first.startswith(":root{")
    assert re.search(r"--bg:light-dark\(#\w+,#\w+\)", first)
    assert console.partition("\n/*")[0] in built("report.css")


def test_a_row_of_a_table_can_be_shown_as_a_card() -> None:
    table = plain_table(("profile", "missed %"), (("theirs", "3"), ("ours", "<1")), ours=("ours",))
    assert table.count('data-label="missed %"') == 2  # a card has no heading row
    assert table.count('<tr class="ours">') == 1
    assert table.count("<th scope=row") == 2
    assert "&lt;1" in table


def test_a_document_is_small_and_escapes_its_words() -> None:
    text = document(EMPTY, (PageSection("one", "One & all", "<p>x</p>"),), (), {})
    assert len(text) < 100_000
    assert 'name="viewport"' in text
    assert '<a href="#one">One &amp; all</a>' in text
    assert not re.search(r"<(lead|end|b)>", text)


def test_the_policy_allows_this_script_and_this_style_and_nothing_else() -> None:
    text = document(EMPTY, (), (), {})
    policy = dict(
        entry.split(" ", 1) for entry in re.findall(r'Content-Security-Policy" content="([^"]*)"', text)[0].split("; ")
    )
    for name, tag in (("script-src", "script"), ("style-src", "style")):
        body = re.findall(f"<{tag}>(.*?)</{tag}>", text, re.S)
        assert len(body) == 1, name
        digest = base64.b64encode(hashlib.sha256(body[0].encode()).digest()).decode()
        assert policy.pop(name) == f"'sha256-{digest}'"
    assert policy == {"default-src": "'none'", "base-uri": "'none'", "form-action": "'none'"}
    assert text.index("Content-Security-Policy") < text.index("<style>")
    markup = re.sub(r"<(script|style)[^>]*>.*?</\1>", "", text, flags=re.S)
    assert not re.search(r"\s(style|on\w+)=", markup)


def test_the_script_says_whose_works_it_contains_and_asks_nobody() -> None:
    script = built("report.js")
    assert "Jason Miller" in script
    assert "Permission is hereby granted" in script
    assert "dagre" not in script  # which it does not contain
    assert not re.search(r"</script|\bfetch\(|XMLHttpRequest|EventSource|WebSocket|\beval\(", script)


@pytest.mark.slow
def test_what_every_page_carries_is_small() -> None:
    assert sum(len(gzip.compress(built(name).encode(), 9)) for name in ("report.js", "report.css")) <= 32 << 10


def test_names_are_inert_in_data_figures_and_tables() -> None:
    axis = Axis(title=WICKED, low=0.0, high=1.0)
    line = ChartLine(name=WICKED, x=[0.0, 1.0], y=[0.0, None], colour="ours", notes=[WICKED, WICKED])
    figure = Figure("one", WICKED, WICKED, Chart(x=axis, y=axis, lines=(line,)))
    text = document(EMPTY, (PageSection("one", WICKED, drawn((figure,))),), (figure,), {WICKED: "ours"})
    assert "<img" not in text
    assert text.count("</script>") == 2
