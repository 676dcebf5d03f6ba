"""What the page sends: JSON of its own origin, which no form and no script of another site can send."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from cotenant.drivers.http.messages import JSON, BodyRefused, Receive, Scope, header, read_body
from cotenant.model.errors import InvalidInput
from cotenant.services.console.questions import wrong

T = TypeVar("T")
_BODY_BYTES = 256 << 10


async def posted(scope: Scope, receive: Receive, form: type[T]) -> T:
    """The body. Raises `BodyRefused`, `Disconnected`, `InvalidInput`."""
    if header(scope, b"sec-fetch-site") not in (b"", b"same-origin", b"none"):
        raise BodyRefused(wrong(403, "this was sent by another site", "console"))
    if header(scope, b"content-type").partition(b";")[0].strip() != JSON:
        raise BodyRefused(wrong(415, "application/json is expected", "console"))
    try:
        return msgspec.json.decode(await read_body(scope, receive, _BODY_BYTES), type=form)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput("body", str(error), "JSON as the page sends it") from error
