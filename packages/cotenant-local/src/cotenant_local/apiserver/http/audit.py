"""The audit log: one audit.k8s.io/v1 Event of level Metadata a line, as kube-apiserver writes them.

Whether a role grants what a process calls can be answered only by the calls. Every request is written when it was
answered, a watch also when it was received, because it may last as long as the server; fields and names are those of
Kubernetes, so that tools which make roles from audit logs read it.
Source: Kubernetes API reference, audit.k8s.io/v1; `RequestInfo` of k8s.io/apiserver for the verbs, and for the name of
a list that selects `metadata.name`.
Limits: no policy, no bodies, no rotation; a line is written synchronously, some microseconds a request. All clients
have one token: `userAgent` tells them apart.
"""

from __future__ import annotations

import logging
import os
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import msgspec

from cotenant.model.errors import InvalidInput
from cotenant.model.json_object import JsonObject
from cotenant_local.apiserver.http.auth import GROUPS, USER
from cotenant_local.apiserver.http.exchange import Exchange
from cotenant_local.apiserver.http.options import is_watch, parse_query
from cotenant_local.apiserver.http.routing import ResourceRoute, parse

RECEIVED, COMPLETE = "RequestReceived", "ResponseComplete"
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}
_BY_NAME = "metadata.name="

_log = logging.getLogger(__name__)


class RequestAudit(Protocol):
    """Receives the requests of a server."""

    def received(self, exchange: Exchange) -> str:
        """A request arrived; returns its identity for `completed`."""

    def completed(self, exchange: Exchange, identity: str) -> None:
        """It was answered, refused, or its client disconnected."""


class AuditLog:
    """Appends events to a file that its owner alone can read."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        """Raises `InvalidInput` where the file cannot be opened."""
        self._path, self._clock = path, clock
        self._failed = False
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError as error:
            raise InvalidInput("--audit-log", str(path), "a file that can be written", error.strerror or "") from None

    def received(self, exchange: Exchange) -> str:
        """Writes the event of a watch; others are written once, when they are answered."""
        identity = str(uuid.uuid4())
        if b"watch=" in exchange.query_string and verb_of(exchange, parse(exchange.path)) == "watch":
            self._write(self._event(exchange, identity, RECEIVED))
        return identity

    def completed(self, exchange: Exchange, identity: str) -> None:
        """Writes the event with the status code; 0 where no answer was begun."""
        event = self._event(exchange, identity, COMPLETE)
        event["responseStatus"] = {"metadata": {}, "code": exchange.code}
        self._write(event)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def _event(self, exchange: Exchange, identity: str, stage: str) -> dict[str, object]:
        route = parse(exchange.path)
        now = datetime.fromtimestamp(self._clock(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        query = exchange.query_string.decode("latin-1")
        client = exchange.scope.get("client")
        event: JsonObject = {
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "level": "Metadata",
            "auditID": identity,
            "stage": stage,
            "requestURI": f"{exchange.path}?{query}" if query else exchange.path,
            "verb": verb_of(exchange, route),
            "user": {} if exchange.code == 401 else {"username": USER, "groups": GROUPS},
            "sourceIPs": [client[0]] if client else [],
            "userAgent": exchange.header(b"user-agent"),
            "stageTimestamp": now,
        }
        if route is not None:
            event["objectRef"] = _object_of(exchange, route)
        return event

    def _write(self, event: JsonObject) -> None:
        try:
            os.write(self._file, msgspec.json.encode(event) + b"\n")
            self._failed = False
        except OSError as error:  # a full disk must not end the server
            if not self._failed:
                _log.error("the audit log %s cannot be written: %s", self._path, error)
            self._failed = True


def verb_of(exchange: Exchange, route: ResourceRoute | None) -> str:
    """The verb that RBAC decides on; of paths that are not resources the method in lower case."""
    method = exchange.method
    if route is None:
        return method.lower()
    if method == "GET":
        if is_watch(parse_query(exchange.query_string)):
            return "watch"
        return "get" if route.name else "list"
    if method == "DELETE":
        return "delete" if route.name else "deletecollection"
    return _VERBS.get(method, method.lower())


def _object_of(exchange: Exchange, route: ResourceRoute) -> dict[str, str]:
    """The objectRef. A list, watch or deletecollection that selects one object by `metadata.name` names it."""
    name = route.name
    if not name:
        terms = parse_query(exchange.query_string).get("fieldSelector", "").split(",")
        named = [term.removeprefix(_BY_NAME).removeprefix("=") for term in terms if term.startswith(_BY_NAME)]
        name = named[0] if named else ""
    found = {
        "resource": route.plural,
        "namespace": route.namespace,
        "name": name,
        "apiGroup": route.group,
        "apiVersion": route.version,
        "subresource": route.subresource,
    }
    return {key: value for key, value in found.items() if value}
