"""The file of `--prices`, wherever a command takes it."""

from __future__ import annotations

from pathlib import Path

from cotenant.model.assess.prices import PriceTable, read_prices
from cotenant.model.errors import InvalidInput


def price_table(path: Path | None) -> PriceTable | None:
    """The prices of a file, None where none is given. Raises `InvalidInput`."""
    if path is None:
        return None
    try:
        text = path.read_bytes()
    except OSError as error:
        raise InvalidInput("--prices", str(path), "a file that can be read", error.strerror or "") from error
    return read_prices(text, str(path))
