"""The built page: made from these sources, small, without inline code, with every text in both languages."""

from __future__ import annotations

import gzip
import json
import re

import pytest
from tools import console_digest

from cotenant.services.console.app import page_files

SOURCES = console_digest.SOURCES / "src"
TEXTS: dict[str, list[str]] = json.loads((SOURCES / "words.json").read_text())
MAX_BYTES = 90 << 10


def test_the_page_and_the_static_pages_were_built_from_these_sources() -> None:
    for stamp in console_digest.STAMPS:
        assert stamp.read_text().strip() == console_digest.digest(), "run `make console` and commit what it builds"


@pytest.mark.slow
def test_the_page_is_small() -> None:
    parts = [file.body for path, file in page_files().items() if path == "/" or "console." in path]
    assert len(parts) == 4  # the document, its script and style, and the worker
    assert sum(len(gzip.compress(part, 9)) for part in parts) <= MAX_BYTES


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
    asked = {key for path in SOURCES.rglob("*.ts*") for key in re.findall(r'\bt\(\s*"([^"]+)"', path.read_text())}
    assert asked - set(TEXTS) == set()
    prefixes = {key for path in SOURCES.rglob("*.ts*") for key in re.findall(r"\bt\(`([\w.]+\.)\$\{", path.read_text())}
    assert all(any(key.startswith(prefix) for key in TEXTS) for prefix in prefixes)


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
    assert TEXTS["spans.n"] == ["{n} {n|span|spans}", "{n} 个 span"]
