"""`cotenant fleet methods` and `call`: what a program of the fleet answers to; `cluster`: one for a cluster."""

from __future__ import annotations

import json as json_format
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from cotenant.cli.fleet.commands import BusAddress, app, bus_options
from cotenant.cli.options import Json
from cotenant.services.options import Context, Kubeconfig, LogFormat, LogLevel

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
def cluster(
    *,
    guid: Annotated[
        str, Parameter(help="Guid under which the cluster is asked: one of `programs` in the fleet's file.")
    ],
    kubeconfig: Kubeconfig = None,
    context: Context = "",
    cloud: Annotated[
        str, Parameter(help="A cloud of OpenStack's clouds.yaml, whose machines are told instead of KubeVirt's.")
    ] = "",
    prices: Annotated[Path | None, Parameter(help="A file of prices: what the pods of a release cost.")] = None,
    connection: BusAddress = _BUS,
    log_level: LogLevel = "info",
    log_format: LogFormat = "text",
) -> int:
    """Serve a cluster's applications and virtual machines as methods, under a guid, with what its kubeconfig may.

    `cotenant fleet methods GUID` lists them; a change answers with an id, and the method change tells how far it is.
    """
    from cotenant.services.changes.place import ClusterPlace
    from cotenant.services.fleet import cluster_main

    place = ClusterPlace(kubeconfig, context, cloud)
    return cluster_main.run(
        cluster_main.ClusterOptions(guid, place, prices, log_level, log_format), bus_options(connection)
    )


@app.command
def call(
    guid: Program,
    method: Annotated[str, Parameter(help="As `cotenant fleet methods GUID` lists it.")],
    arguments: Annotated[
        tuple[str, ...],
        Parameter(
            help="NAME=VALUE, a text or number as the method's types say; NAME=@FILE, a file's text; NAME:=JSON for "
            "lists and objects."
        ),
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
            raise InvalidInput("ARGUMENTS", text, "NAME=VALUE, NAME=@FILE or NAME:=JSON")
        if name in found:
            raise InvalidInput("ARGUMENTS", text, "each name once")
        try:
            if value.startswith("@") and not is_json:
                found[name] = _text_of(name, value[1:])
            else:
                found[name] = json_format.loads(value) if is_json else value
        except ValueError as error:
            raise InvalidInput(name, value, "JSON", str(error)) from error
    return found


def _text_of(name: str, path: str) -> str:
    from cotenant.model.errors import InvalidInput

    try:
        return Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(name, f"@{path}", "a file of text that can be read", str(error)) from error
