"""Numbers in requests that no machine integer, calendar or timer accepts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from cotenant.drivers.kube.manifests.errors import ApiError
from cotenant_local.apiserver.contract import ListOptions
from cotenant_local.apiserver.http.options import delete_options, list_options, write_options
from cotenant_local.apiserver.storage.store import Store
from cotenant_local.apiserver.verbs.api import Api
from cotenant_local.apiserver.verbs.context import timestamp
from cotenant_local.apiserver.verbs.continuation import Token, encode
from cotenant_local.apiserver.verbs.numbers import parse_version

HUGE = "9" * 5_000


@pytest.mark.parametrize("text", [HUGE, str(1 << 64), "²", "1_0", "-1", " 1", "1e3"])
def test_a_resource_version_that_is_no_64_bit_number_is_a_bad_request(text: str) -> None:
    with pytest.raises(ApiError, match="invalid resource version") as caught:
        list_options({"resourceVersion": text})
    assert caught.value.code == 400
    assert len(caught.value.message) < 400


def test_leading_zeros_are_allowed() -> None:
    assert parse_version("0" * 5_000 + "7") == 7
    assert parse_version("") == 0
    assert parse_version(str((1 << 64) - 1)) == (1 << 64) - 1


@pytest.mark.parametrize("name", ["limit", "timeoutSeconds"])
@pytest.mark.parametrize("text", [HUGE, str(1 << 63), "1_0", "²", "1.5"])
def test_an_option_that_is_no_64_bit_integer_is_a_bad_request(name: str, text: str) -> None:
    with pytest.raises(ApiError, match=r"strconv\.ParseInt") as caught:
        list_options({name: text})
    assert caught.value.code == 400


@pytest.mark.parametrize(
    "call",
    [
        lambda: delete_options({"gracePeriodSeconds": HUGE}, None),
        lambda: delete_options({}, {"gracePeriodSeconds": 1 << 70}),
        lambda: delete_options({}, {"gracePeriodSeconds": "1"}),
    ],
)
def test_a_grace_period_that_is_no_64_bit_integer_is_a_bad_request(call: Callable[[], object]) -> None:
    with pytest.raises(ApiError) as caught:
        call()
    assert caught.value.code == 400


def test_a_time_beyond_the_calendar_is_its_last_second() -> None:
    assert timestamp(1e18) == "9999-12-31T23:59:59Z"


def test_an_unknown_parameter_is_ignored() -> None:
    assert write_options({"limit": HUGE}, "CreateOptions", "x").manager == "x"


def test_a_watch_of_any_length_and_a_token_of_another_store_are_answered() -> None:
    async def case() -> None:
        api = Api(Store())
        await api.bootstrap()
        target = api.target("", "namespaces")
        watch = api.watch(target, ListOptions(timeout_s=float((1 << 63) - 1)))
        assert b"ADDED" in await watch.chunk()
        waiting = asyncio.create_task(watch.chunk())
        await asyncio.sleep(0)
        watch.close()
        assert await waiting == b""
        token = encode(Token(1 << 60, ("", "a")))
        with pytest.raises(ApiError, match="too old to display") as caught:
            await api.list(target, ListOptions(limit=1, continue_token=token))
        assert caught.value.code == 410
        page = await api.list(target, ListOptions(limit=1, continue_token=caught.value.continue_token))
        assert page.items
        await api.close()

    asyncio.run(case())
