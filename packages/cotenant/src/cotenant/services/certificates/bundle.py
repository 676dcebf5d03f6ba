"""The ConfigMap that gets the authorities of all parts, as a person names it."""

from __future__ import annotations

from cotenant.model.errors import InvalidInput


def parse_bundle(written: str, field: str) -> tuple[str, str] | None:
    """NAMESPACE/NAME of a ConfigMap; None for "". Raises `InvalidInput`."""
    if not written:
        return None
    namespace, _, name = written.partition("/")
    if not namespace or not name or "/" in name:
        raise InvalidInput(field, written, "NAMESPACE/NAME of a ConfigMap")
    return namespace, name
