"""OTLP over gRPC.

Most SDKs send gRPC by default. Grpcio's asyncio server with a generic handler that passes the request's bytes on;
nothing is decoded twice. So that bodies cannot fill the memory, a connection has few calls at a time, and further ones
wait at the client; beyond `MAX_CALLS` of all connections a call is refused.
Limits: the certificate is read at the start; port reuse is off, so a used port is an error.

Source: opentelemetry-proto, docs/specification.md, "OTLP/gRPC".
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import grpc

from cotenant.drivers.http.address import Address, bind
from cotenant.drivers.http.tls import Tls
from cotenant.drivers.http.tokens import BearerToken
from cotenant.drivers.otlp.answers import success
from cotenant.drivers.otlp.decoding import MAX_BYTES
from cotenant.drivers.otlp.wire_fields import TooLarge
from cotenant.model.errors import InvalidInput, Transient, Unsupported

METHOD = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
STOP_WITHIN_S = 2.0
MAX_CALLS = 32  # at a time: 640 MiB of bodies under way
MAX_CALLS_OF_CONNECTION = 8

Export = Callable[[bytes, str], Awaitable[tuple[int, str]]]
Door = Callable[[bytes], Awaitable[Export | None]]  # by the `authorization` of a call: what takes it, None = refused
Asked = Callable[[bytes, bytes], Awaitable[bytes | None]]  # a body and the `authorization`; None = refused


class OtlpGrpcServer:
    """Serves `Export`.

    `export` takes the bytes of a request and the address that it came from, and returns how many spans were rejected
    and why; it raises `InvalidInput` for a body that cannot be read, `Transient` where the client must wait. With a
    `token` each call needs it as `authorization: Bearer TOKEN`. Raises `InvalidInput` where the address or the
    certificate cannot be used.
    """

    def __init__(
        self,
        export: Export,
        address: Address,
        *,
        tls: Tls | None = None,
        token: BearerToken | None = None,
        door: Door | None = None,
        answered: Callable[[str], None] = lambda code: None,
        max_calls: int = MAX_CALLS,
        further: Mapping[str, Asked] = MappingProxyType({}),
    ) -> None:
        """`answered` is called with the name of each answer's status code. A `door` decides by itself, without
        `export` and `token`; it may raise `Transient`. `further` methods answer beside `Export`, and may raise
        `InvalidInput`, `Transient`, and `Unsupported` where there is no such answer here.
        """
        self._export, self._token, self._answered, self._door = export, token, answered, door
        bind(address).close()  # raises with the reason; the library says that it failed, and logs lines of its own
        options = (
            ("grpc.max_receive_message_length", MAX_BYTES),
            ("grpc.max_concurrent_streams", MAX_CALLS_OF_CONNECTION),
            ("grpc.so_reuseport", 0),
        )
        self._server = grpc.aio.server(options=options, maximum_concurrent_rpcs=max_calls)
        answers: dict[str, Callable[..., Any]] = {METHOD: self._answer}
        answers |= {name: partial(self._asked, asked) for name, asked in further.items()}
        self._server.add_generic_rpc_handlers((_Handler(answers),))
        try:
            if tls is None:
                port = self._server.add_insecure_port(str(address))
            else:
                port = self._server.add_secure_port(str(address), _credentials(tls))
        except RuntimeError as error:
            raise InvalidInput("--grpc", str(address), "an address that is free", str(error)[:120]) from None
        self.address = Address(address.host, port)

    async def start(self) -> None:
        """Accept calls."""
        await self._server.start()

    async def stop(self) -> None:
        """Complete the calls in progress, close."""
        await self._server.stop(STOP_WITHIN_S)

    async def _answer(self, body: bytes, context: grpc.aio.ServicerContext[Any, Any]) -> bytes:
        given = dict(context.invocation_metadata() or ()).get("authorization", "")
        code, text, answer = await self._outcome(body, given, _address(context.peer()))
        self._answered(code.name)
        if code is not grpc.StatusCode.OK:
            await context.abort(code, text)
        return answer

    async def _asked(self, asked: Asked, body: bytes, context: grpc.aio.ServicerContext[Any, Any]) -> bytes:
        given = dict(context.invocation_metadata() or ()).get("authorization", "")
        try:
            answer = await asked(body, given if isinstance(given, bytes) else given.encode())
            code, text = grpc.StatusCode.OK, ""
            if answer is None:
                code, text = grpc.StatusCode.UNAUTHENTICATED, "expected authorization: Bearer TOKEN"
        except InvalidInput as error:
            code, text, answer = grpc.StatusCode.INVALID_ARGUMENT, str(error), None
        except Transient as error:
            code, text, answer = grpc.StatusCode.UNAVAILABLE, str(error), None
        except Unsupported as error:
            code, text, answer = grpc.StatusCode.NOT_FOUND, str(error), None
        if answer is None:
            await context.abort(code, text)
        return answer or b""

    async def _outcome(
        self, body: bytes, authorization: str | bytes, sender: str
    ) -> tuple[grpc.StatusCode, str, bytes]:
        given = authorization if isinstance(authorization, bytes) else authorization.encode()
        try:
            export = await self._door(given) if self._door is not None else self._admitted(given)
            if export is None:
                return grpc.StatusCode.UNAUTHENTICATED, "expected authorization: Bearer TOKEN", b""
            return grpc.StatusCode.OK, "", success(*await export(body, sender))
        except TooLarge as error:
            return grpc.StatusCode.RESOURCE_EXHAUSTED, str(error), b""
        except InvalidInput as error:
            return grpc.StatusCode.INVALID_ARGUMENT, str(error), b""
        except Transient as error:
            return grpc.StatusCode.UNAVAILABLE, str(error), b""

    def _admitted(self, authorization: bytes) -> Export | None:
        if self._token is not None and not self._token.accepts(authorization, time.time()):
            return None
        return self._export


class _Handler(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpc has no types
    def __init__(self, answers: Mapping[str, Callable[..., Any]]) -> None:
        self._methods = {name: grpc.unary_unary_rpc_method_handler(answer) for name, answer in answers.items()}

    def service(self, handler_call_details: Any) -> Any:
        """The handler of a method; None = unimplemented."""
        return self._methods.get(handler_call_details.method)


def _address(peer: str) -> str:
    """The host of gRPC's name for a peer, such as `ipv4:192.0.2.1:5678`."""
    return peer.partition(":")[2].rpartition(":")[0] or peer


def _credentials(tls: Tls) -> grpc.ServerCredentials:
    tls.context()  # its errors name the file
    roots = tls.client_ca.read_bytes() if tls.client_ca is not None else None
    pair = (tls.key.read_bytes(), tls.certificate.read_bytes())
    return grpc.ssl_server_credentials((pair,), root_certificates=roots, require_client_auth=roots is not None)
