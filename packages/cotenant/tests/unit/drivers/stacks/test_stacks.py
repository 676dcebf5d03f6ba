"""What py-spy writes, and the profile that is made of it, read by the protobuf runtime."""

from __future__ import annotations

import gzip
from dataclasses import replace

import pytest

from cotenant.drivers.stacks.pprof import encode_pprof
from cotenant.drivers.stacks.py_spy import parse_events, parse_raw
from cotenant.model.errors import Permanent
from cotenant.model.machine.stacks import Frame, HotFrame, Stack, StackRun, hottest

MAIN, WORK, LEAF = Frame("<module>", "/a b.py", 8), Frame("work (x)", "/a b.py", 4), Frame("leaf", "/c.py", 300)
RAW = "<module> (/a b.py:8);work (x) (/a b.py:4) 3\n<module> (/a b.py:8);work (x) (/a b.py:4);leaf (/c.py:300) 7\nodd\n"
STACKS = [Stack((MAIN, WORK), 3), Stack((MAIN, WORK, LEAF), 7)]


def test_raw_stacks_are_read() -> None:
    assert parse_raw(RAW) == STACKS
    assert parse_raw("process 7;native 2") == [Stack((Frame("process 7"), Frame("native")), 2)]


def test_frames_by_own_samples_and_recursion_counts_once() -> None:
    assert hottest(STACKS) == [HotFrame(LEAF, 7, 7), HotFrame(WORK, 3, 10), HotFrame(MAIN, 0, 10)]
    assert hottest([Stack((LEAF, LEAF), 2)]) == [HotFrame(LEAF, 2, 2)]
    assert hottest([]) == []


EVENTS = """[
{"args":{"filename":"/a b.py","line":8},"cat":"py-spy","name":"<module>","ph":"B","pid":7,"tid":1,"ts":1000},
{"args":{"filename":"/a b.py","line":4},"cat":"py-spy","name":"work (x)","ph":"B","pid":7,"tid":1,"ts":1000},
{"args":{"filename":"/c.py","line":300},"cat":"py-spy","name":"leaf","ph":"B","pid":7,"tid":2,"ts":1500},
{"args":{"filename":"/a b.py","line":4},"cat":"py-spy","name":"work (x)","ph":"E","pid":7,"tid":1,"ts":3000},
{"args":{"filename":"/c.py","line":300},"cat":"py-spy","name":"leaf","ph":"B","pid":7,"tid":1,"ts":3000},
{"args":{"filename":"/c.py","line":300},"cat":"py-spy","name":"leaf","ph":"E","pid":7,"tid":1,"ts":4000},
{"args":{"filename":"/a b.py","line":8},"cat":"py-spy","name":"<module>","ph":"E","pid":7,"tid":1,"ts":4000},
{"args":{"filename":"/c.py","line":300},"cat":"py-spy","name":"leaf","ph":"E","pid":7,"tid":2,"ts":4000}
]"""


def test_events_become_runs_of_each_thread() -> None:
    found = parse_events(EVENTS, 10_000_000)
    assert (found.begin_ns, found.end_ns) == (11_000_000, 14_000_000)
    stacks = [tuple(found.frames[place] for place in stack) for stack in found.stacks]
    assert [(run, stacks[run.stack]) for run in found.runs] == [
        (StackRun(7, 1, 11_000_000, 13_000_000, 0), (MAIN, WORK)),
        (StackRun(7, 1, 13_000_000, 14_000_000, 1), (MAIN, LEAF)),
        (StackRun(7, 2, 11_500_000, 14_000_000, 2), (LEAF,)),
    ]
    assert parse_events("[]", 0).runs == ()
    with pytest.raises(Permanent, match="cannot be read"):
        parse_events('[{"ph": "B"}]', 0)


FIELDS = {  # of profile.proto: message -> (name, number, type, is repeated); types of descriptor.proto, or a message
    "ValueType": [("type", 1, 3, False), ("unit", 2, 3, False)],
    "Label": [("key", 1, 3, False), ("str", 2, 3, False)],
    "Sample": [("location_id", 1, 4, True), ("value", 2, 3, True), ("label", 3, "Label", True)],
    "Line": [("function_id", 1, 4, False), ("line", 2, 3, False)],
    "Location": [("id", 1, 4, False), ("line", 4, "Line", True)],
    "Function": [("id", 1, 4, False), ("name", 2, 3, False), ("filename", 4, 3, False)],
    "Profile": [
        ("sample_type", 1, "ValueType", True),
        ("sample", 2, "Sample", True),
        ("location", 4, "Location", True),
        ("function", 5, "Function", True),
        ("string_table", 6, 9, True),
        ("time_nanos", 9, 3, False),
        ("duration_nanos", 10, 3, False),
        ("period_type", 11, "ValueType", False),
        ("period", 12, 3, False),
    ],
}


def test_a_profile_is_what_pprof_reads() -> None:
    descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2", reason="protobuf is not installed")
    from google.protobuf import descriptor_pool, message_factory
    from google.protobuf.unknown_fields import UnknownFieldSet

    file = descriptor_pb2.FileDescriptorProto(name="profile.proto", package="p", syntax="proto3")
    for message, parts in FIELDS.items():
        made = file.message_type.add(name=message)
        for name, number, kind, repeated in parts:
            field = made.field.add(name=name, number=number, label=3 if repeated else 1)
            if isinstance(kind, str):
                field.type, field.type_name = 11, f".p.{kind}"
            else:
                field.type = kind
    linked = replace(STACKS[1], trace_id="ab" * 16, span_id="cd" * 8)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    profile = message_factory.GetMessageClass(pool.FindMessageTypeByName("p.Profile"))()
    profile.ParseFromString(gzip.decompress(encode_pprof([STACKS[0], linked], 1.5, 10.0, 100)))
    texts = list(profile.string_table)
    assert texts[0] == ""
    functions = {found.id: (texts[found.name], texts[found.filename]) for found in profile.function}
    places = {found.id: (*functions[found.line[0].function_id], found.line[0].line) for found in profile.location}
    read = [([places[number] for number in sample.location_id], list(sample.value)) for sample in profile.sample]
    main, work, leaf = (("<module>", "/a b.py", 8), ("work (x)", "/a b.py", 4), ("leaf", "/c.py", 300))
    assert read == [([work, main], [3, 30_000_000]), ([leaf, work, main], [7, 70_000_000])]
    labels = [{texts[label.key]: texts[label.str] for label in sample.label} for sample in profile.sample]
    assert labels == [{}, {"trace_id": "ab" * 16, "span_id": "cd" * 8}]
    assert [(texts[kind.type], texts[kind.unit]) for kind in profile.sample_type] == [
        ("samples", "count"),
        ("wall", "nanoseconds"),
    ]
    assert (profile.time_nanos, profile.duration_nanos, profile.period) == (1_500_000_000, 10_000_000_000, 10_000_000)
    assert not len(UnknownFieldSet(profile))
