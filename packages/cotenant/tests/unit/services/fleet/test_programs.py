"""Functions as methods, and programs that a controller is asked for. On a real bus: tests/fleet/test_programs.py."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
import pytest
from tests.fakes.servers.fleet_world import FleetWorld
from tests.fakes.waiting import soon

from cotenant.drivers.nats.contract import BusMessage
from cotenant.model.errors import InvalidInput, Permanent, Transient
from cotenant.model.fleet.methods import Call, Called, Method, MethodList, Methods
from cotenant.model.fleet.refusal import FleetForbidden, NoSuchGuid, Overdue
from cotenant.model.fleet.rights import FleetFile, FleetOperator, HostEntry, ProgramEntry
from cotenant.services.fleet.programs.program import Program
from cotenant.services.fleet.programs.typed import TypedMethod
from cotenant.services.fleet.rpc import encode


@dataclass
class Reading:
    celsius: float
    room: str


def warm(celsius: Annotated[float, msgspec.Meta(le=30)], room: str = "hall", tries: list[int] | None = None) -> Reading:
    """Warm a room.

    More that nobody is shown.
    """
    return Reading(celsius, room)


def answer(function: Callable[..., object], data: bytes, deadline_s: float = 5.0) -> object:
    made = TypedMethod(function, "method", deadline_s)
    return json.loads(bytes(asyncio.run(made.call(data))))


def test_arguments_have_types_defaults_and_may_be_written_as_text() -> None:
    assert answer(warm, b'{"celsius": "21.5"}') == {"celsius": 21.5, "room": "hall"}
    assert answer(warm, b'{"celsius": 3, "room": "7", "tries": [1]}') == {"celsius": 3.0, "room": "7"}


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"{}", "celsius: missing: expected a value"),
        (b'{"celsius": 1, "rom": "x"}', "rom: unknown: expected an argument of this method"),
        (b'{"celsius": "warm"}', "celsius: str: expected `float`"),
        (b'{"celsius": 31}', "celsius: refused: expected `float` <= 30.0"),
        (b'{"celsius": 1, "tries": [1, "x"]}', r"tries\[1\]"),
        (b"[]", "arguments: "),
        (b"{", "arguments: "),
        (b'{"celsius": 1, "room": "\xff"}', "arguments: "),
    ],
)
def test_a_wrong_argument_is_named(data: bytes, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        answer(warm, data)


def test_a_result_of_another_type_is_the_programs_fault() -> None:
    def wrong() -> Reading:
        return {"celsius": "hot", "room": "hall"}  # type: ignore[return-value]

    def unwritable() -> int:
        return object()  # type: ignore[return-value]

    with pytest.raises(Permanent, match=r"result\.celsius of method: Expected `float`, got `str`"):
        answer(wrong, b"")
    with pytest.raises(Permanent, match=r"result of method: .*object"):
        answer(unwritable, b"")


def test_a_function_that_cannot_be_a_method_is_refused_when_it_is_registered() -> None:
    def untyped(level) -> None: ...  # type: ignore[no-untyped-def]

    def without_result(level: int): ...  # type: ignore[no-untyped-def]

    def unnamed(*levels: int) -> None: ...

    def not_json(level: threading.Lock) -> None: ...

    def other(level: int) -> None: ...

    for function, said in (
        (untyped, "level.*a type"),
        (without_result, "result of without_result"),
        (unnamed, "parameters that have names"),
        (not_json, "types of not_json"),
    ):
        with pytest.raises(InvalidInput, match=said):
            Program("p", guid="p-1").method()(function)
    program = Program("p", guid="p-1")
    program.method()(other)
    for name in ("other", "methods", "a.b", "*", ""):
        with pytest.raises(InvalidInput, match="method"):
            program.method(name or "Other")(other)
    with pytest.raises(InvalidInput, match="deadline"):
        program.method("late", deadline_s=0)(other)


def test_a_program_without_a_guid_says_where_it_comes_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COTENANT_GUID", raising=False)
    with pytest.raises(InvalidInput, match=r"\$COTENANT_GUID"):
        assert Program("p").guid
    monkeypatch.setenv("COTENANT_GUID", "cam-00000001")
    assert Program("p").guid == "cam-00000001"


RIGHTS = FleetFile(
    (HostEntry("agent-a"),),
    (
        FleetOperator("alice", ("*",)),
        FleetOperator("bob", ("call", "methods"), ("edge",)),
        FleetOperator("carol", ("methods",)),
    ),
    programs=(ProgramEntry("shop-1", ("edge",)), ProgramEntry("bank-1", ("core",))),
)


def request(guid: str, method: str, arguments: object = (), deadline_s: float = 5.0) -> Call:
    return Call(guid, method, msgspec.Raw(json.dumps(dict(arguments)).encode()), deadline_s)  # type: ignore[call-overload]


def played(tmp_path: Path, case: Callable[[FleetWorld], object]) -> None:
    """`case` beside a world with two programs of one make."""

    async def play() -> None:
        stop = asyncio.Event()
        async with FleetWorld(tmp_path, rights=RIGHTS) as world:
            tasks = []
            for guid in ("shop-1", "bank-1"):
                program = Program("heating", "1.2.3", guid=guid)
                program.method(deadline_s=2.0)(warm)
                calls: list[int] = []

                @program.method()
                async def count(calls: list[int] = calls) -> int:
                    return len(calls)

                @program.method(deadline_s=0.05)
                async def forever() -> None:
                    await asyncio.Event().wait()

                @program.method()
                def broken() -> None:
                    raise ValueError("secret")

                tasks.append(asyncio.create_task(program.serve(world.bus, stop)))

            async def there() -> bool:
                try:
                    return bool(await world.ask("methods", Methods("bank-1"), MethodList, "alice"))
                except NoSuchGuid:
                    return False

            await soon("the programs answer", there)
            await case(world)  # type: ignore[misc]
            stop.set()
            await asyncio.gather(*tasks)
            with pytest.raises(NoSuchGuid):
                await world.ask("call", request("shop-1", "count"), Called, "alice")

    asyncio.run(play())


def test_operators_find_and_call_methods(tmp_path: Path) -> None:
    async def case(world: FleetWorld) -> None:
        listed = await world.ask("methods", Methods("shop-1"), MethodList, "carol")
        assert isinstance(listed, MethodList)
        assert [method.name for method in listed.methods] == ["warm", "count", "forever", "broken"]
        first = listed.methods[0]
        assert (first.result, first.deadline_s, first.about) == ("Reading", 2.0, "Warm a room.")
        assert [(found.name, found.default) for found in first.parameters] == [
            ("celsius", None),
            ("room", '"hall"'),
            ("tries", "null"),
        ]
        called = await world.ask("call", request("shop-1", "warm", {"celsius": "20"}), Called, "bob")
        assert isinstance(called, Called)
        assert json.loads(bytes(called.result)) == {"celsius": 20.0, "room": "hall"}
        with pytest.raises(InvalidInput, match="celsius: "):
            await world.ask("call", request("shop-1", "warm"), Called, "bob")
        with pytest.raises(InvalidInput, match="cool: expected one of warm, count, forever, broken"):
            await world.ask("call", request("shop-1", "cool"), Called, "bob")
        with pytest.raises(Overdue, match="forever"):
            await world.ask("call", request("shop-1", "forever"), Called, "bob")
        with pytest.raises(Permanent, match="broken failed") as said:
            await world.ask("call", request("shop-1", "broken"), Called, "bob")
        assert "secret" not in str(said.value)

    played(tmp_path, case)


def test_rights_are_by_verb_and_tag_and_an_agent_is_no_program(tmp_path: Path) -> None:
    async def case(world: FleetWorld) -> None:
        for operator, guid in (("carol", "shop-1"), ("bob", "bank-1"), ("mallory", "shop-1"), ("bob", "nobody-1")):
            with pytest.raises(FleetForbidden):
                await world.ask("call", request(guid, "count"), Called, operator)
        with pytest.raises(InvalidInput, match="this is an agent's"):
            await world.ask("call", request("agent-a", "survey"), Called, "alice")
        with pytest.raises(NoSuchGuid):
            await world.ask("call", request("nobody-1", "count"), Called, "alice")

    played(tmp_path, case)


def test_a_repeated_call_acts_once(tmp_path: Path) -> None:
    acted: list[int] = []

    async def case(world: FleetWorld) -> None:
        stop = asyncio.Event()
        program = Program("counter", guid="counter-1")

        @program.method()
        async def act() -> int:
            acted.append(1)
            return len(acted)

        serving = asyncio.create_task(program.serve(world.bus, stop))
        await asyncio.sleep(0)
        for _ in range(3):
            called = await world.ask("call", request("counter-1", "act"), Called, "alice", key="same")
            assert isinstance(called, Called)
            assert bytes(called.result) == b"1"
        stop.set()
        await serving

    played(tmp_path, case)
    assert acted == [1]


def test_a_method_that_is_named_and_does_not_answer_yet_is_to_be_asked_again(tmp_path: Path) -> None:
    async def case(world: FleetWorld) -> None:
        async def answered(message: BusMessage) -> None:
            known = MethodList("heating", "1", (Method("warm", (), "str", 5.0),))
            await world.bus.publish(message.reply, encode(known))

        await world.bus.subscribe("guid.shop-2.rpc.methods", answered)
        with pytest.raises(Transient, match="shop-2 does not answer for warm just now"):
            await world.ask("call", request("shop-2", "warm"), Called, "alice")

    played(tmp_path, case)
