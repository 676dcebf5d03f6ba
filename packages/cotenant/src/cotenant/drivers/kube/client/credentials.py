"""Credentials for the API server: a fixed token or certificate, a token in a file that is replaced, or the output of an
exec plugin.

Tokens expire while a scheduler runs for months. A source returns what is valid now without waiting (`current`), or None
if it must be renewed, which may run a program (`renew`, one at a time); a refused credential is dropped (`reject`) and
renewed once more.
Limits: an exec plugin runs without a terminal, so one that must ask a person (interactiveMode Always) is refused. The
old auth providers (gcp, azure, oidc inside the kubeconfig) left Kubernetes in v1.26 and are not here.
Source: Kubernetes documentation, "Authenticating" (client-go credential plugins); service account tokens are read again
every minute as in client-go.
"""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from math import inf
from pathlib import Path
from typing import Protocol

import msgspec

from cotenant.drivers.kube.client.errors import UNREADABLE
from cotenant.model.errors import InvalidInput, Transient

TOKEN_REREAD_S = 60.0
EXPIRY_MARGIN_S = 10.0
EXEC_TIMEOUT_S = 60.0
EXEC_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")


@dataclass(frozen=True, slots=True)
class Certificate:
    """A client certificate and its key, PEM."""

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        return "Certificate(...)"


@dataclass(frozen=True, slots=True)
class Credential:
    """The value of the Authorization header, empty for none, and a client certificate."""

    authorization: str = ""
    certificate: Certificate | None = None

    def __repr__(self) -> str:
        return "Credential(...)"


class CredentialSource(Protocol):
    """A source of credentials. Times are Unix seconds."""

    def current(self, now_s: float) -> Credential | None:
        """The credential that is valid now, or None: `renew` first."""

    async def renew(self, now_s: float) -> Credential:
        """A credential that is valid now. `InvalidInput` where the source is broken, `Transient` where it failed
        this time.
        """

    def reject(self, credential: Credential) -> None:
        """The server refused this one: do not return it again unless there is no other."""


class FixedCredential:
    """One that never changes."""

    def __init__(self, credential: Credential) -> None:
        self._credential = credential

    def current(self, now_s: float) -> Credential | None:
        """Always the same."""
        return self._credential

    async def renew(self, now_s: float) -> Credential:
        """Always the same."""
        return self._credential

    def reject(self, credential: Credential) -> None:
        """There is no other."""


class TokenFile:
    """A bearer token in a file that another program replaces (service accounts, `tokenFile`)."""

    def __init__(self, path: Path, field: str, certificate: Certificate | None = None) -> None:
        self._path = path
        self._field = field
        self._certificate = certificate
        self._credential: Credential | None = None
        self._read_s = -inf

    def current(self, now_s: float) -> Credential | None:
        """The token last read, read again once a minute (or when the clock went back)."""
        if self._credential is None or not 0 <= now_s - self._read_s < TOKEN_REREAD_S:
            try:
                self._credential = self._read()
            except InvalidInput:
                if self._credential is None:
                    raise
                # The file is being replaced: the old token serves until it is refused.
            self._read_s = now_s
        return self._credential

    async def renew(self, now_s: float) -> Credential:
        """Read the file now."""
        self._credential = self._read()
        self._read_s = now_s
        return self._credential

    def reject(self, credential: Credential) -> None:
        """Read again at the next use."""
        self._read_s = -inf

    def _read(self) -> Credential:
        try:
            token = self._path.read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidInput(self._field, str(self._path), "a readable file with a token", str(error)) from error
        if not token or not token.isprintable():
            raise InvalidInput(self._field, str(self._path), "a file with a token of one line")
        return Credential(f"Bearer {token}", self._certificate)


class _ExecStatus(msgspec.Struct, rename="camel"):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: datetime | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: _ExecStatus | None = None


class ExecPlugin:
    """A program that prints an ExecCredential. `field` names the kubeconfig entry in errors."""

    def __init__(
        self,
        field: str,
        command: str,
        args: tuple[str, ...],
        env: Mapping[str, str],
        api_version: str,
        cluster: Mapping[str, object] | None = None,
        install_hint: str = "",
        timeout_s: float = EXEC_TIMEOUT_S,
    ) -> None:
        if api_version not in EXEC_VERSIONS:
            raise InvalidInput(f"{field}.apiVersion", api_version, " or ".join(EXEC_VERSIONS))
        self._field = field
        self._command = command
        self._args = args
        self._env = dict(env)
        self._api_version = api_version
        self._cluster = cluster
        self._hint = install_hint
        self._timeout_s = timeout_s
        self._credential: Credential | None = None
        self._expires_s = inf
        self._lock = asyncio.Lock()

    def current(self, now_s: float) -> Credential | None:
        """The last output of the program, until shortly before it expires."""
        return self._credential if now_s < self._expires_s - EXPIRY_MARGIN_S else None

    async def renew(self, now_s: float) -> Credential:
        """Run the program, once for all concurrent callers."""
        async with self._lock:
            valid = self.current(now_s)
            if valid is not None:
                return valid
            printed = await self._run()
            self._credential, self._expires_s = self._read(printed)
            return self._credential

    def reject(self, credential: Credential) -> None:
        """Run the program again at the next use."""
        if credential == self._credential:
            self._credential = None

    async def _run(self) -> bytes:
        if shutil.which(self._command, path=self._env.get("PATH", os.environ.get("PATH"))) is None:
            raise InvalidInput(f"{self._field}.command", self._command, "an executable program", self._hint)
        spec: dict[str, object] = {"interactive": False}
        if self._cluster is not None:
            spec["cluster"] = self._cluster
        info = {"kind": "ExecCredential", "apiVersion": self._api_version, "spec": spec}
        env = {**os.environ, **self._env, "KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode()}
        try:
            process = await asyncio.create_subprocess_exec(
                self._command,
                *self._args,
                env=env,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            raise InvalidInput(f"{self._field}.command", self._command, "an executable program", str(error)) from error
        try:
            async with asyncio.timeout(self._timeout_s):  # wait_for may lose a cancellation until Python 3.12
                printed, complaint = await process.communicate()
        except TimeoutError as error:
            raise Transient(f"{self._field}: {self._command} did not end within {self._timeout_s:g} s") from error
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode != 0:
            said = complaint.decode("utf-8", "replace").strip()[-500:]
            raise Transient(f"{self._field}: {self._command} ended with status {process.returncode}: {said}")
        return printed

    def _read(self, printed: bytes) -> tuple[Credential, float]:
        # The output of a plugin is secret: errors name what was expected and never show it.
        try:
            answer = msgspec.json.decode(printed, type=_ExecCredential)
        except UNREADABLE as error:
            raise InvalidInput(
                f"{self._field}: output", "(not shown)", "an ExecCredential as JSON", str(error)
            ) from None
        if answer.kind != "ExecCredential" or answer.api_version != self._api_version:
            said = f"{answer.kind} {answer.api_version}"
            raise InvalidInput(f"{self._field}: output", said, f"an ExecCredential of {self._api_version}")
        status = answer.status or _ExecStatus()
        certificate = None
        if status.client_certificate_data and status.client_key_data:
            certificate = Certificate(status.client_certificate_data.encode(), status.client_key_data.encode())
        elif status.client_certificate_data or status.client_key_data:
            raise InvalidInput(f"{self._field}: output", "one of the two", "clientCertificateData and clientKeyData")
        if certificate is None and not status.token:
            raise InvalidInput(f"{self._field}: output", "neither", "status.token or a client certificate")
        if status.token and not status.token.isprintable():
            raise InvalidInput(f"{self._field}: output", "(not shown)", "a token of one line")
        expires = status.expiration_timestamp
        credential = Credential(f"Bearer {status.token}" if status.token else "", certificate)
        return credential, expires.timestamp() if expires is not None else inf


def basic(username: str, password: str) -> str:
    """The Authorization header of a user name and a password."""
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode("ascii")
