"""Event: what a component reports about an object."""

from __future__ import annotations

from cotenant.drivers.kube.kinds.kind import ApiStruct, Int32, Kind, Text
from cotenant.drivers.kube.kinds.parts import ObjectMeta, ObjectReference


class EventSource(ApiStruct, frozen=True):
    """The reporting component."""

    component: str = ""


class Event(ApiStruct, frozen=True):
    """v1 Event."""

    metadata: ObjectMeta
    involved_object: ObjectReference
    reason: str
    message: str
    type: str
    count: Int32 = 1
    first_timestamp: Text = None
    last_timestamp: Text = None
    source: EventSource = EventSource()
    reporting_component: str = ""
    reporting_instance: str = ""


EVENTS = Kind("Event", "", "v1", "events", True, Event)
