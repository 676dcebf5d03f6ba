"""Lines cut anywhere."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant.drivers.kube.client.errors import Unavailable
from cotenant.drivers.kube.client.lines import Lines


@pytest.mark.slow
@settings(deadline=None)
@given(st.lists(st.text(st.characters(exclude_characters="\n", codec="utf-8"), min_size=1), max_size=8), st.data())
def test_lines_come_out_whole_however_they_are_cut(texts: list[str], data: st.DataObject) -> None:
    wanted = [text.encode() for text in texts if not text.encode().isspace()]
    raw = b"".join(text.encode() + b"\n" for text in texts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=10)))
    lines, found = Lines(), []
    for start, end in zip([0, *cuts], [*cuts, len(raw)], strict=True):
        found += lines.feed(raw[start:end])
    assert found == wanted
    assert lines.rest == 0


def test_a_line_that_has_not_ended_is_kept_back() -> None:
    lines = Lines()
    assert lines.feed(b'{"a"') == []
    assert lines.rest == 4
    assert lines.feed(b":1}\n{") == [b'{"a":1}']
    assert lines.rest == 1


def test_a_line_without_end_is_refused() -> None:
    lines = Lines(max_bytes=10)
    lines.feed(b"12345")
    with pytest.raises(Unavailable, match="10 bytes"):
        lines.feed(b"678901")
