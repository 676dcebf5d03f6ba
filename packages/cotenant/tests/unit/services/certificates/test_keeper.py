"""Waiting for the certificate while the API server does not give it."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.errors import Forbidden
from cotenant.services.certificates.keeper import LONGEST_RETRY_S, RETRY_S, CertificateKeeper


class Enough(Exception):
    pass


class Refusing:
    """An API server that refuses, at first for one reason and then for another."""

    def __init__(self, outage_s: float) -> None:
        self.outage = SimpleNamespace(lasts_s=outage_s)
        self.asked = 0

    async def get(self, *where: Any) -> None:
        self.asked += 1
        raise Forbidden("may not read" if self.asked < 6 else "may not write")


@pytest.mark.parametrize(("outage_s", "lines"), [(0.0, 2), (5.0, 0)], ids=["refused", "away"])
def test_it_asks_less_often_and_says_only_what_is_new(
    outage_s: float, lines: int, caplog: pytest.LogCaptureFixture
) -> None:
    server, slept = Refusing(outage_s), []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 8:
            raise Enough

    keeper = CertificateKeeper(cast(Client, server), "ns", "x", ("h",), None, sleep=sleep)
    with caplog.at_level(logging.WARNING), pytest.raises(Enough):
        asyncio.run(keeper.obtain())
    assert slept[0] == RETRY_S
    assert slept == sorted(slept)
    assert slept[-1] == LONGEST_RETRY_S
    assert len(caplog.records) == lines
