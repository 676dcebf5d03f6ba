"""The story of a service's incidents on one node, from its agent to the trace process.

    agent -> trace process   POST /api/v1/stories    StoryReport

Agents listen on the loopback of their node, so a question such as "what happened to shop/cart" had no place in a
cluster to be asked. The agent sends the story when it changes, and all of them after a new connection; the trace
process keeps the last one of each service and node. The story is what `/v1/explain?service=` of the agent answers.
Limits: the last `MAX_INCIDENTS` incidents of a service; a sender without a valid story is refused whole.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import msgspec

from cotenant.engine.node.recovery.story import ServiceStory
from cotenant.model.errors import InvalidInput
from cotenant.services.reporting.signals import Word

STORIES = "/api/v1/stories"
MAX_BYTES = 256 << 10
MAX_INCIDENTS = 8


class StoryReport(msgspec.Struct, frozen=True, rename="camel"):
    """One service on one node. `at_s`: Unix time of the story's `now_us`, which is on the agent's clock."""

    node: Word
    at_s: Annotated[float, msgspec.Meta(ge=0, le=1e11)]
    story: ServiceStory


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(StoryReport)


def encode(report: StoryReport) -> bytes:
    """The body of a request; without the oldest incidents where there are more than `MAX_INCIDENTS`."""
    story = replace(report.story, incidents=report.story.incidents[:MAX_INCIDENTS])
    return _encoder.encode(msgspec.structs.replace(report, story=story))


def decode(body: bytes) -> StoryReport:
    """A report. Raises `InvalidInput`."""
    try:
        report = _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput("story", " ".join(str(error).split())[:200], "a JSON object of this form") from None
    namespace, slash, name = report.story.service.partition("/")
    if not (namespace and slash and name and len(report.story.service) <= 512):
        raise InvalidInput("story.service", report.story.service[:200], "NAMESPACE/NAME")
    if len(report.story.incidents) > MAX_INCIDENTS:
        raise InvalidInput("story.incidents", len(report.story.incidents), f"at most {MAX_INCIDENTS}")
    return report
