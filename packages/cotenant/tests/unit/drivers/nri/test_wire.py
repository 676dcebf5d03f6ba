"""Frames and messages arrive in any pieces; what is too long is refused without losing what follows."""

from __future__ import annotations

import struct

import pytest

from cotenant.drivers.nri import mux, ttrpc
from cotenant.drivers.nri.ttrpc import TtrpcMessage
from cotenant.model.errors import Permanent


def test_frames_in_any_pieces() -> None:
    sent = mux.frames_of(1, b"abc") + mux.frames_of(2, b"") + mux.frames_of(2, b"de")
    for piece in (1, 3, 7, len(sent)):
        frames = mux.Frames()
        found = [entry for at in range(0, len(sent), piece) for entry in frames.feed(sent[at : at + piece])]
        assert found == [(1, b"abc"), (2, b"de")]


def test_a_long_message_leaves_in_pieces_that_a_runtime_can_read() -> None:
    data = bytes(range(256)) * 40
    found = list(mux.Frames().feed(mux.frames_of(1, data)))
    assert b"".join(piece for _, piece in found) == data
    assert [len(piece) for _, piece in found] == [4096, 4096, 2048]


def test_a_frame_of_an_impossible_length_ends_the_connection() -> None:
    with pytest.raises(Permanent, match="a frame of 16777217 bytes"):
        list(mux.Frames().feed(struct.pack(">II", 1, (16 << 20) + 1)))


def test_messages_in_any_pieces() -> None:
    sent = ttrpc.encoded(1, ttrpc.REQUEST, b"first") + ttrpc.encoded(3, ttrpc.RESPONSE, b"")
    for piece in (1, 9, 11, len(sent)):
        messages = ttrpc.Messages()
        found = [message for at in range(0, len(sent), piece) for message in messages.feed(sent[at : at + piece])]
        assert found == [TtrpcMessage(1, ttrpc.REQUEST, b"first"), TtrpcMessage(3, ttrpc.RESPONSE, b"")]


def test_a_message_that_is_too_long_is_passed_over_and_reported() -> None:
    long = ttrpc.encoded(5, ttrpc.REQUEST, bytes(ttrpc.MAX_BYTES + 1))
    sent = long + ttrpc.encoded(7, ttrpc.REQUEST, b"next")
    messages = ttrpc.Messages()
    found = [message for at in range(0, len(sent), 1 << 20) for message in messages.feed(sent[at : at + (1 << 20)])]
    assert found == [TtrpcMessage(5, ttrpc.REQUEST, None), TtrpcMessage(7, ttrpc.REQUEST, b"next")]
