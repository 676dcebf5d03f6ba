"""Log lines of a long-running process, as text for people or as JSON for collectors.

A collector that splits text lines loses the level, the logger and every traceback, which spans lines. One set-up for
all processes; `json` writes one object a line: `time` (RFC 3339, UTC, milliseconds), `level`, `logger`, `message`, and
`exception` with the traceback.
Limits: lines go to standard error only; messages are sentences, and names within them have no fields of their own.
"""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime

import msgspec

from cotenant.model.errors import InvalidInput

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
TEXT, JSON = "text", "json"
FORMATS = (TEXT, JSON)
_LINE = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"


class LogLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of the JSON format."""

    time: str
    level: str
    logger: str
    message: str
    exception: str = ""


class JsonFormatter(logging.Formatter):
    """One JSON object for each record."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as JSON. A message whose arguments do not fit its format is written unformatted."""
        try:
            message = record.getMessage()
        except (TypeError, ValueError, KeyError):
            message = f"{record.msg} {record.args}"
        exception = self.formatException(record.exc_info) if record.exc_info else record.exc_text or ""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = LogLine(at, record.levelname.lower(), record.name, message, exception)
        return msgspec.json.encode(line).decode()


def check_logging(level: str, written_as: str = TEXT) -> None:
    """Raises `InvalidInput` for what `log_to_stderr` does not know."""
    if level not in LEVELS:
        raise InvalidInput("--log-level", level, ", ".join(LEVELS))
    if written_as not in FORMATS:
        raise InvalidInput("--log-format", written_as, " or ".join(FORMATS))


def log_to_stderr(level: str, written_as: str = TEXT) -> None:
    """One line an event, from this level on, as `text` or `json`; uvicorn's own not below warnings. Raises
    `InvalidInput`.
    """
    check_logging(level, written_as)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if written_as == JSON else logging.Formatter(_LINE))
    logging.basicConfig(level=LEVELS[level], handlers=[handler], force=True)
    logging.getLogger("uvicorn.error").setLevel(max(LEVELS[level], logging.WARNING))
