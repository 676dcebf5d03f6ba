"""Stacks as an OTLP profiles request; samples whose span is known have a link to it.

Source: opentelemetry-proto, opentelemetry/proto/profiles/v1development/profiles.proto: under development, so a
collector of another version may refuse it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2 import ExportProfilesServiceRequest
from opentelemetry.proto.profiles.v1development.profiles_pb2 import Link, ProfilesDictionary
from opentelemetry.proto.profiles.v1development.profiles_pb2 import Stack as StackMessage

from cotenant.model.machine.stacks import Frame, Stack

EXPORT_PATH = "/v1development/profiles"


def encode_profile(
    stacks: Sequence[Stack], attributes: Mapping[str, str], at_s: float, seconds: float, rate_hz: int
) -> bytes:
    """An ExportProfilesServiceRequest of one resource: nanoseconds of wall time by stack."""
    request = ExportProfilesServiceRequest()
    tables = _Tables(request.dictionary)
    of_resource = request.resource_profiles.add()
    for key, value in attributes.items():
        of_resource.resource.attributes.add(key=key).value.string_value = value
    scope = of_resource.scope_profiles.add()
    scope.scope.name = "cotenant"
    profile = scope.profiles.add(time_unix_nano=int(at_s * 1e9), duration_nano=int(seconds * 1e9))
    period_ns = 1_000_000_000 // rate_hz
    for kind in (profile.sample_type, profile.period_type):
        kind.type_strindex, kind.unit_strindex = tables.text("wall"), tables.text("nanoseconds")
    profile.period = period_ns
    for stack in stacks:
        sample = profile.samples.add(stack_index=tables.stack(stack.frames), values=[stack.samples * period_ns])
        if stack.span_id:
            sample.link_index = tables.link(stack.trace_id, stack.span_id)
    return request.SerializeToString()


class _Tables:
    """The tables of a dictionary; the first row of each means nothing."""

    def __init__(self, dictionary: ProfilesDictionary) -> None:
        self._dictionary = dictionary
        self._texts, self._links = {"": 0}, {("", ""): 0}
        self._stacks: dict[tuple[Frame, ...], int] = {(): 0}
        self._locations: dict[Frame, int] = {}
        self._functions: dict[tuple[str, str], int] = {}
        dictionary.string_table.append("")
        for table in (
            dictionary.mapping_table,
            dictionary.location_table,
            dictionary.function_table,
            dictionary.link_table,
            dictionary.attribute_table,
            dictionary.stack_table,
        ):
            table.add()

    def text(self, value: str) -> int:
        if value not in self._texts:
            self._texts[value] = len(self._texts)
            self._dictionary.string_table.append(value)
        return self._texts[value]

    def link(self, trace_id: str, span_id: str) -> int:
        key = trace_id, span_id
        if key not in self._links:
            self._links[key] = len(self._links)
            self._dictionary.link_table.append(
                Link(trace_id=bytes.fromhex(trace_id.zfill(32)), span_id=bytes.fromhex(span_id.zfill(16)))
            )
        return self._links[key]

    def stack(self, frames: tuple[Frame, ...]) -> int:
        if frames not in self._stacks:
            self._stacks[frames] = len(self._stacks)
            locations = [self._location(frame) for frame in reversed(frames)]  # the leaf first
            self._dictionary.stack_table.append(StackMessage(location_indices=locations))
        return self._stacks[frames]

    def _location(self, frame: Frame) -> int:
        if frame not in self._locations:
            self._locations[frame] = len(self._locations) + 1
            line = self._dictionary.location_table.add().lines.add(function_index=self._function(frame))
            line.line = frame.line
        return self._locations[frame]

    def _function(self, frame: Frame) -> int:
        key = frame.function, frame.file
        if key not in self._functions:
            self._functions[key] = len(self._functions) + 1
            name, file = self.text(frame.function), self.text(frame.file)
            self._dictionary.function_table.add(name_strindex=name, filename_strindex=file)
        return self._functions[key]
