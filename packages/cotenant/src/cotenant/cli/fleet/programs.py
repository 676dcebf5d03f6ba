"""`cotenant fleet methods` and `call`: what a program of the fleet answers to, and its answers."""

from __future__ import annotations

import json as json_format
from typing import Annotated

from cyclopts import Parameter

from cotenant.cli.fleet.commands import BusAddress, app, bus_options
from cotenant.cli.options import Json

_BUS = BusAddress()
_MARGIN_S = 2.0  # for the way to the program and back
Program = Annotated[str, Parameter(help="The program's guid: that of its container, or one of its own.")]


@app.command
def methods(guid: Program, /, *, connection: BusAddress = _BUS, json: Json = False) -> int:
    """Methods that a program has registered under its guid: parameters with types and defaults, result, deadline."""
    from cotenant.cli.fleet import showing
    from cotenant.model.fleet.methods import MethodList, Methods
    from cotenant.services.fleet.operator import ask_controller

    return showing.show_methods(
        guid, ask_controller(bus_options(connection), "methods", Methods(guid), MethodList), json
    )


@app.command
def call(
    guid: Program,
    method: Annotated[str, Parameter(help="As `cotenant fleet methods GUID` lists it.")],
    arguments: Annotated[
        tuple[str, ...],
        Parameter(help="NAME=VALUE, a text or number as the method's types say; NAME:=JSON for lists and objects."),
    ] = (),
    /,
    *,
    timeout: Annotated[
        str, Parameter(help="Deadline, as 30s; the method's own holds where it is shorter.", show_default=True)
    ] = "5s",
    connection: BusAddress = _BUS,
    json: Json = False,
) -> int:
    """Call a method of a program and print its result.

    Exit status: 0 with a result, 2 where an argument is wrong (it is named), 1 otherwise.
    """
    import msgspec

    from cotenant.cli.fleet import showing
    from cotenant.model.fleet.durations import duration_s
    from cotenant.model.fleet.methods import Call, Called, check_deadline, check_method
    from cotenant.services.fleet.operator import ask_controller

    check_method(method)
    deadline_s = check_deadline("--timeout", duration_s("--timeout", timeout))
    given = msgspec.Raw(json_format.dumps(_arguments(arguments)).encode())
    request = Call(guid, method, given, deadline_s)
    answer = ask_controller(bus_options(connection), "call", request, Called, deadline_s + _MARGIN_S)
    return showing.show_result(bytes(answer.result), json)


def _arguments(written: tuple[str, ...]) -> dict[str, object]:
    from cotenant.model.errors import InvalidInput

    found: dict[str, object] = {}
    for text in written:
        name, equals, value = text.partition("=")
        is_json = name.endswith(":")
        name = name.removesuffix(":")
        if not equals or not name:
            raise InvalidInput("ARGUMENTS", text, "NAME=VALUE or NAME:=JSON")
        if name in found:
            raise InvalidInput("ARGUMENTS", text, "each name once")
        try:
            found[name] = json_format.loads(value) if is_json else value
        except ValueError as error:
            raise InvalidInput(name, value, "JSON", str(error)) from error
    return found
