"""The built page: made from these sources, small, without inline code, with every text in both languages."""

from __future__ import annotations

import gzip
import json
import re

import pytest
from tools import console_digest

from cotenant.services.console.app import page_files

SOURCES = console_digest.SOURCES / "src"
TABLES: dict[str, dict[str, list[str]]] = {  # by the function that gives the texts
    "t": json.loads((SOURCES / "words.json").read_text()),
    "say": json.loads((SOURCES / "autonomy/words.json").read_text()),
    "told": json.loads((SOURCES / "monitors/words.json").read_text()),
}
TEXTS = {f"{function}({key})": pair for function, table in TABLES.items() for key, pair in table.items()}
MAX_BYTES = 90 << 10
MAX_LATER_BYTES = 8 << 10  # of a view that is loaded when it is opened


def test_the_page_and_the_static_pages_were_built_from_these_sources() -> None:
    for stamp in console_digest.STAMPS:
        assert stamp.read_text().strip() == console_digest.digest(), "run `make console` and commit what it builds"


@pytest.mark.slow
def test_the_page_is_small() -> None:
    parts = [file.body for path, file in page_files().items() if path == "/" or "console." in path]
    assert len(parts) == 4  # the document, its script and style, and the worker
    assert sum(len(gzip.compress(part, 9)) for part in parts) <= MAX_BYTES
    for view in ("autonomy", "monitors"):
        assert len(gzip.compress(page_files()[f"/assets/{view}.js"].body, 9)) <= MAX_LATER_BYTES


@pytest.mark.parametrize("path", ["/", "/login"])
def test_documents_have_no_inline_code_and_load_nothing_from_elsewhere(path: str) -> None:
    text = page_files()[path].body.decode()
    assert not re.search(r"<script(?![^>]*\bsrc=)", text)
    assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:", text)
    assert all(url.startswith("/") for url in re.findall(r'(?:src|href|action)="([^"]*)"', text))


def test_sources_make_no_markup_from_text() -> None:
    for path in SOURCES.rglob("*.ts*"):
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|dangerouslySet|\beval\(", path.read_text()
        ), path


def test_every_text_is_in_both_languages_with_the_same_values() -> None:
    for key, (english, chinese) in TEXTS.items():
        assert english.strip(), key
        assert chinese.strip(), key
        assert sorted(re.findall(r"\{\w+\}", english)) == sorted(re.findall(r"\{\w+\}", chinese)), key


def test_every_text_that_is_asked_for_exists() -> None:
    sources = [path.read_text() for path in SOURCES.rglob("*.ts*")]
    for function, table in TABLES.items():
        asked = {key for text in sources for key in re.findall(rf'\b{function}\(\s*"([^"]+)"', text)}
        assert asked - set(table) == set()
        prefixes = {key for text in sources for key in re.findall(rf"\b{function}\(`([\w.]+\.)\$\{{", text)}
        assert all(any(key.startswith(prefix) for key in table) for prefix in prefixes)


def test_the_tables_of_both_sides_agree() -> None:
    from cotenant.services.console import fleet

    text = (SOURCES / "fleet.ts").read_text()
    constants = dict(re.findall(r"export const (\w+) = ([\w <]+);", text))
    assert int(constants["COLUMNS"]) == fleet.COLUMNS
    assert int(constants["CELL"]) == fleet.CELL
    assert int(constants["UNKNOWN"], 16) == fleet.UNKNOWN
    assert int(constants["UNMEASURED"], 16) == fleet.UNMEASURED
    assert (constants["NOT_READY"], constants["CORDONED"]) == ("1 << 16", "1 << 17")
    assert (fleet.NOT_READY, fleet.CORDONED) == (1 << 16, 1 << 17)


def test_a_number_that_may_be_one_has_a_noun_for_it() -> None:
    """`{n} {n|pod|pods}`, not `{n} pods`."""
    verbs = {"has", "is", "was", "waits", "costs"}
    wrong = {
        key: english
        for key, (english, _) in TEXTS.items()
        for noun in re.findall(r"\{\w+\} (?:[a-z]+ )?([A-Za-z]+s)\b", english)
        if noun not in verbs and not re.search(r"\{n\} of its ", english)
    }
    assert not wrong
    assert TEXTS["t(spans.n)"] == ["{n} {n|span|spans}", "{n} 个 span"]
