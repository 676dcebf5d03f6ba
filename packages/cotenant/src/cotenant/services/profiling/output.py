"""Stacks into a file, as pprof or as OTLP profiles, and to a collector."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cotenant.drivers.stacks.pprof import encode_pprof
from cotenant.model.errors import InvalidInput, Permanent
from cotenant.model.machine.stacks import Stack
from cotenant.model.urls import split_url

OTLP_SUFFIX = ".otlp"
_PROTOBUF = "application/x-protobuf"


@dataclass(frozen=True, slots=True)
class Output:
    """`out`: a file, as OTLP where its name ends so, else as pprof. `otlp`: URL of a collector; empty: none."""

    out: Path | None = None
    otlp: str = ""

    def check(self) -> None:
        """Raises `InvalidInput`."""
        if self.otlp and split_url(self.otlp) is None:
            raise InvalidInput("--otlp", self.otlp, "http://HOST:PORT or https://HOST:PORT")

    def write(
        self, stacks: Sequence[Stack], attributes: Mapping[str, str], at_s: float, seconds: float, rate_hz: int
    ) -> str:
        """The file's name; empty: none was asked for. Raises `Permanent`, `Transient`, `Unsupported`."""
        if self.out is not None:
            if self.out.suffix == OTLP_SUFFIX:
                body = _otlp(stacks, attributes, at_s, seconds, rate_hz)
            else:
                body = encode_pprof(stacks, at_s, seconds, rate_hz)
            try:
                self.out.write_bytes(body)
            except OSError as error:
                raise Permanent(f"{self.out} cannot be written: {error.strerror}") from error
        if self.otlp:
            asyncio.run(_send(self.otlp, _otlp(stacks, attributes, at_s, seconds, rate_hz)))
        return str(self.out or "")


NO_OUTPUT = Output()


def _otlp(stacks: Sequence[Stack], attributes: Mapping[str, str], at_s: float, seconds: float, rate_hz: int) -> bytes:
    from cotenant.drivers.otlp.profile_encoding import encode_profile

    return encode_profile(stacks, attributes, at_s, seconds, rate_hz)


async def _send(url: str, body: bytes) -> None:
    from cotenant.drivers.otlp.collector import OtlpCollector
    from cotenant.drivers.otlp.profile_encoding import EXPORT_PATH

    collector = OtlpCollector(url)
    try:
        await collector.send(EXPORT_PATH, body, _PROTOBUF)
    finally:
        await collector.close()
