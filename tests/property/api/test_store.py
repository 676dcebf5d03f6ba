"""Any sequence of writes: the store equals a plain dictionary at every revision, and events lead from one revision
to the next.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.few import examples, first_cases

from cotenant.drivers.kube.manifests.errors import ApiError
from cotenant_local.apiserver.contract import ListOptions
from cotenant_local.apiserver.storage.sqlite import Database
from cotenant_local.apiserver.storage.store import Store
from cotenant_local.apiserver.storage.watching import WatchStream
from cotenant_local.apiserver.verbs.api import Api

NAMES = st.sampled_from(["a", "b", "c", "d"])
SPACES = st.sampled_from(["default", "kube-system"])
TIERS = st.sampled_from(["web", "db"])
WRITES = st.lists(st.tuples(st.sampled_from(["create", "update", "delete"]), SPACES, NAMES, TIERS), max_size=25)
SELECTORS = st.sampled_from(["", "tier=web", "tier!=web", "!tier"])

Model = dict[tuple[str, str], tuple[str, int]]  # tier and resourceVersion by key


async def write(api: Api, model: Model, step: tuple[str, str, str, str]) -> None:
    """Apply one write to both; they must agree on whether it is possible."""
    verb, namespace, name, tier = step
    key = (namespace, name)
    target = api.target("", "configmaps", namespace, name)
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"tier": tier}}}
    refusal = 409 if verb == "create" and key in model else 404 if verb != "create" and key not in model else 0
    call = (
        api.create(target, obj)
        if verb == "create"
        else api.update(target, obj)
        if verb == "update"
        else api.delete(target)
    )
    if refusal:
        with pytest.raises(ApiError) as caught:
            await call
        assert caught.value.code == refusal
        return
    answer = await call
    if verb == "delete":
        del model[key]
        return
    model[key] = (tier, int(msgspec.json.decode(answer.raw)["metadata"]["resourceVersion"]))


def selected(model: Model, selector: str) -> Model:
    if selector == "!tier":
        return {}
    return {
        key: value for key, value in model.items() if not selector or (value[0] == "web") == (selector == "tier=web")
    }


def shown(items: list[Any]) -> Model:
    return {item.key: (item.labels["tier"], item.resource_version) for item in items}


async def replay(watch: WatchStream, state: Model) -> None:
    """Apply a watch's pending events to a state."""
    watch._end_at = 0.0  # what is pending, and then the end
    async for line in watch:
        event = msgspec.json.decode(line)
        metadata = event["object"]["metadata"]
        key = (metadata["namespace"], metadata["name"])
        if event["type"] == "ADDED":
            assert key not in state
        else:
            assert key in state
        if event["type"] == "DELETED":
            del state[key]
        else:
            state[key] = (metadata["labels"]["tier"], int(metadata["resourceVersion"]))


@settings(max_examples=examples(60), deadline=None)
@given(steps=WRITES, selector=SELECTORS)
def test_events_from_any_revision_lead_to_the_list(steps: list[tuple[str, str, str, str]], selector: str) -> None:
    async def case() -> None:
        api = Api(Store())
        await api.bootstrap()
        everywhere = api.target("", "configmaps")
        options = ListOptions(labels=selector)
        model: Model = {}
        states: list[tuple[int, Model]] = [(api.store.revision, {})]
        live = api.watch(everywhere, ListOptions(labels=selector, resource_version=str(api.store.revision)))
        for step in steps:
            before = api.store.revision
            await write(api, model, step)
            assert before <= api.store.revision <= before + 1
            states.append((api.store.revision, dict(model)))
        final = selected(model, selector)
        assert shown((await api.list(everywhere, options)).items) == final
        for revision, then in states:
            past = await api.list(
                everywhere, ListOptions(labels=selector, resource_version=str(revision), match="Exact")
            )
            assert shown(past.items) == selected(then, selector)
            state = dict(selected(then, selector))
            await replay(api.watch(everywhere, ListOptions(labels=selector, resource_version=str(revision))), state)
            assert state == final
        state = {}
        await replay(live, state)
        assert state == final
        await api.close()

    asyncio.run(case())


@settings(max_examples=examples(40), deadline=None)
@given(first=WRITES, between=WRITES, limit=st.integers(1, 4))
def test_pages_are_one_snapshot_whatever_is_written_between(
    first: list[tuple[str, str, str, str]], between: list[tuple[str, str, str, str]], limit: int
) -> None:
    async def case() -> None:
        api = Api(Store())
        await api.bootstrap()
        everywhere = api.target("", "configmaps")
        model: Model = {}
        for step in first:
            await write(api, model, step)
        wanted = dict(model)
        rest = iter(between)
        page = await api.list(everywhere, ListOptions(limit=limit))
        items = list(page.items)
        while page.continue_token:
            assert page.remaining == len(wanted) - len(items)
            for step in rest:
                await write(api, model, step)
                break
            page = await api.list(everywhere, ListOptions(limit=limit, continue_token=page.continue_token))
            items += page.items
        assert [item.key for item in items] == sorted(wanted)
        assert shown(items) == wanted
        await api.close()

    asyncio.run(case())


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(steps=WRITES)
def test_a_store_opened_again_is_the_same(steps: list[tuple[str, str, str, str]]) -> None:
    async def case(directory: Path) -> None:
        api = Api(Store(Database(directory)))
        await api.bootstrap()
        model: Model = {}
        for step in steps:
            await write(api, model, step)
        revision = api.store.revision
        await api.close()
        again = Api(Store(Database(directory)))
        await again.bootstrap()
        assert again.store.revision == revision
        assert shown((await again.list(again.target("", "configmaps"))).items) == model
        await again.close()

    with tempfile.TemporaryDirectory() as at:
        asyncio.run(case(Path(at)))


test_first_cases = first_cases(
    test_a_store_opened_again_is_the_same,
    most=3,
)
