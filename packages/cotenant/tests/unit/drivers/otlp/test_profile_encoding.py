"""A profiles request, read again through its tables."""

from __future__ import annotations

from opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2 import ExportProfilesServiceRequest

from cotenant.drivers.otlp.profile_encoding import encode_profile
from cotenant.model.machine.stacks import Frame, Stack

MAIN, WORK, LEAF = Frame("<module>", "/a.py", 8), Frame("work", "/a.py", 4), Frame("work", "/a.py", 5)


def test_samples_have_their_stacks_and_the_span_whose_time_it_was() -> None:
    stacks = [Stack((MAIN, WORK), 3), Stack((MAIN, LEAF), 7, "ab" * 16, "cd" * 8), Stack((MAIN, WORK), 1, "1", "2")]
    body = encode_profile(stacks, {"service.instance.id": "web-1"}, 1.5, 10.0, 100)
    request = ExportProfilesServiceRequest.FromString(body)
    tables = request.dictionary
    for table in ("mapping", "location", "function", "link", "attribute", "stack"):
        first = getattr(tables, f"{table}_table")[0]
        assert first == type(first)()
    assert tables.string_table[0] == ""
    (of_resource,) = request.resource_profiles
    assert [(pair.key, pair.value.string_value) for pair in of_resource.resource.attributes] == [
        ("service.instance.id", "web-1")
    ]
    (profile,) = of_resource.scope_profiles[0].profiles
    assert (profile.time_unix_nano, profile.duration_nano, profile.period) == (1_500_000_000, 10_000_000_000, 10**7)
    for kind in (profile.sample_type, profile.period_type):
        texts = tables.string_table[kind.type_strindex], tables.string_table[kind.unit_strindex]
        assert texts == ("wall", "nanoseconds")

    def frame(location: int) -> Frame:
        (line,) = tables.location_table[location].lines
        function = tables.function_table[line.function_index]
        name, file = tables.string_table[function.name_strindex], tables.string_table[function.filename_strindex]
        return Frame(name, file, line.line)

    read = [
        (
            [frame(place) for place in tables.stack_table[sample.stack_index].location_indices],
            list(sample.values),
            tables.link_table[sample.link_index].span_id.hex(),
            tables.link_table[sample.link_index].trace_id.hex(),
        )
        for sample in profile.samples
    ]
    assert read == [
        ([WORK, MAIN], [30_000_000], "", ""),
        ([LEAF, MAIN], [70_000_000], "cd" * 8, "ab" * 16),
        ([WORK, MAIN], [10_000_000], "2".zfill(16), "1".zfill(32)),
    ]
    assert len(tables.function_table) == 3
