"""A class name has one meaning in all three packages: who reads it in a traceback need not ask which."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = sorted(ROOT.glob("packages/*/src/**/*.py"))
PUBLIC_CLASS = re.compile(r"^class ([A-Z]\w*)", re.MULTILINE)


def test_no_public_class_name_stands_twice() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in SOURCES:
        for name in PUBLIC_CLASS.findall(path.read_text()):
            places[name].append(str(path.relative_to(ROOT)))
    assert len(places) > 3000, "the sources were not found"
    assert {name: files for name, files in places.items() if len(files) > 1} == {}
