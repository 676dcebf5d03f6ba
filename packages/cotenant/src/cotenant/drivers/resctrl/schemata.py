"""The text of a resctrl `schemata` file: parsed, merged, formatted canonically.

The kernel pads lines, orders them arbitrarily and accepts partial ones, so different texts may be equivalent. A
`Schemata` is what every resource grants in every domain, with one canonical text: resources and domains ascending,
masks without leading zeros. Merging overlays desired values on current ones.
Limits: values are kept in the hardware's form: a mask for caches, a number for bandwidth.

Source: Linux, Documentation/filesystems/resctrl.rst.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from cotenant.model.errors import InvalidInput

_RESOURCE = re.compile(r"[A-Z][A-Z0-9_]{0,15}")
_DOMAIN = re.compile(r"[0-9]{1,6}")
_MASK = re.compile(r"(0x)?[0-9a-fA-F]{1,16}")
_AMOUNT = re.compile(r"[0-9]{1,10}")


@dataclass(frozen=True, slots=True)
class SchemataLine:
    """One resource, e.g. L3 or MB: what each domain is granted."""

    resource: str
    domains: tuple[tuple[int, int], ...]  # ascending by domain

    @property
    def is_mask(self) -> bool:
        """Whether values are bits of a cache; otherwise they are amounts."""
        return not self.resource.startswith("MB")

    def __str__(self) -> str:
        form = "x" if self.is_mask else "d"
        return f"{self.resource}:" + ";".join(f"{domain}={value:{form}}" for domain, value in self.domains)


@dataclass(frozen=True, slots=True)
class Schemata:
    """All resources, ascending by name."""

    lines: tuple[SchemataLine, ...] = ()

    def line(self, resource: str) -> SchemataLine | None:
        """What one resource grants; None where there is none."""
        return next((line for line in self.lines if line.resource == resource), None)

    def with_changes(self, changes: Schemata) -> Schemata:
        """These schemata with the domains of `changes` replaced. Raises `InvalidInput` for a resource or domain
        that does not exist.
        """
        after: list[SchemataLine] = []
        for change in changes.lines:
            current = self.line(change.resource)
            known = dict(current.domains) if current is not None else {}
            for domain, _ in change.domains:
                if domain not in known:
                    have = ", ".join(line.resource for line in self.lines) or "nothing"
                    raise InvalidInput("schemata", f"{change.resource}:{domain}", f"what this machine has: {have}")
        for line in self.lines:
            wanted = changes.line(line.resource)
            merged = dict(line.domains) | (dict(wanted.domains) if wanted is not None else {})
            after.append(SchemataLine(line.resource, tuple(sorted(merged.items()))))
        return Schemata(tuple(after))

    def __str__(self) -> str:
        return "\n".join(str(line) for line in self.lines)


def parse_schemata(text: str) -> Schemata:
    """Parse the file's text or a desired value. Raises `InvalidInput` with the malformed line."""
    found: dict[str, SchemataLine] = {}
    for written in text.splitlines():
        if not written.strip():
            continue
        resource, colon, rest = written.strip().partition(":")
        line = _line(resource, rest) if colon and _RESOURCE.fullmatch(resource) else None
        if line is None or resource in found:
            raise InvalidInput("schemata", written, "RESOURCE:DOMAIN=VALUE;..., each resource and domain once")
        found[resource] = line
    return Schemata(tuple(found[name] for name in sorted(found)))


def _line(resource: str, text: str) -> SchemataLine | None:
    values: dict[int, int] = {}
    masks = not resource.startswith("MB")
    for part in text.split(";"):
        domain, equals, value = (piece.strip() for piece in part.partition("="))
        is_valid = equals and _DOMAIN.fullmatch(domain) and (_MASK if masks else _AMOUNT).fullmatch(value)
        if not is_valid or int(domain) in values:
            return None
        values[int(domain)] = int(value, 16 if masks else 10)
    return SchemataLine(resource, tuple(sorted(values.items())))
