"""Which API server to use and with which credentials: from kubeconfig files or from inside a pod.

Kubeconfig has many forms, and an error in one must be named so that a person can fix it. One reader of the documented
form (clusters, users and contexts of several files merged as kubectl merges them) into one value, `Access`; errors name
file and field.
Limits: unknown keys are ignored, as kubectl does; the auth providers removed in Kubernetes v1.26 are refused by name.
Source: Kubernetes documentation, "Organizing Cluster Access Using kubeconfig Files" (merging: the first file that sets
a value wins; relative paths are relative to the file that names them) and "Accessing the API from a Pod".
"""

from __future__ import annotations

import base64
import binascii
import os
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import msgspec

from cotenant.drivers.http.trust import trusting
from cotenant.drivers.kube.client.credentials import (
    Certificate,
    Credential,
    CredentialSource,
    ExecPlugin,
    FixedCredential,
    TokenFile,
    basic,
)
from cotenant.drivers.kube.client.errors import UNREADABLE
from cotenant.model.errors import InvalidInput
from cotenant.model.urls import split_url

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True)
class Access:
    """A server and the credentials for it. `source` names the files they came from."""

    server: str  # no slash at the end
    credentials: CredentialSource
    namespace: str = "default"
    ca_pem: str = ""  # empty = the machine's own authorities
    verify: bool = True
    server_name: str = ""  # expected in the server's certificate instead of its host
    proxy: str = ""
    headers: tuple[tuple[str, str], ...] = ()  # impersonation
    source: str = field(default="", compare=False)

    def ssl_context(self, certificate: Certificate | None = None) -> ssl.SSLContext | None:
        """The TLS settings for a client certificate; None where the server is plain HTTP. `InvalidInput` names what
        cannot be used.
        """
        if not self.server.startswith("https:"):
            return None
        try:
            context = trusting(self.ca_pem or None)
        except (ssl.SSLError, ValueError) as error:
            raise InvalidInput(
                f"{self.source}: certificate-authority", "(data)", "certificates as PEM", str(error)
            ) from error
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if certificate is not None:
            _load_certificate(context, certificate, self.source)
        return context


def _load_certificate(context: ssl.SSLContext, certificate: Certificate, source: str) -> None:
    # Python's ssl reads certificates from files only. The file is private (0600) and removed before this returns.
    with tempfile.NamedTemporaryFile(prefix="cotenant-", suffix=".pem") as file:
        file.write(certificate.certificate.rstrip() + b"\n" + certificate.key)
        file.flush()
        try:
            context.load_cert_chain(file.name, password=lambda: b"")
        except (ssl.SSLError, OSError, ValueError) as error:
            raise InvalidInput(
                f"{source}: client-certificate",
                "(data)",
                "a certificate and its key without passphrase, as PEM",
                str(error),
            ) from error


class _Kebab(msgspec.Struct, rename="kebab"):
    pass


class _Cluster(_Kebab):
    server: str | None = None
    certificate_authority: str | None = None
    certificate_authority_data: str | None = None
    insecure_skip_tls_verify: bool | None = None
    tls_server_name: str | None = None
    proxy_url: str | None = None


class _EnvVar(msgspec.Struct):
    name: str
    value: str


class _Exec(msgspec.Struct, rename="camel"):
    command: str
    api_version: str = ""
    args: list[str] | None = None
    env: list[_EnvVar] | None = None
    install_hint: str | None = None
    provide_cluster_info: bool | None = None
    interactive_mode: str | None = None


class _User(_Kebab):
    token: str | None = None
    token_file: str | None = msgspec.field(default=None, name="tokenFile")
    client_certificate: str | None = None
    client_certificate_data: str | None = None
    client_key: str | None = None
    client_key_data: str | None = None
    username: str | None = None
    password: str | None = None
    exec: _Exec | None = None
    auth_provider: dict[str, object] | None = None
    impersonate: str | None = msgspec.field(default=None, name="as")
    impersonate_groups: list[str] | None = msgspec.field(default=None, name="as-groups")


class _Context(msgspec.Struct):
    cluster: str | None = None
    user: str | None = None
    namespace: str | None = None


class _NamedCluster(msgspec.Struct):
    name: str
    cluster: _Cluster | None = None


class _NamedUser(msgspec.Struct):
    name: str
    user: _User | None = None


class _NamedContext(msgspec.Struct):
    name: str
    context: _Context | None = None


class _Config(_Kebab):
    current_context: str | None = None
    clusters: list[_NamedCluster] | None = None
    users: list[_NamedUser] | None = None
    contexts: list[_NamedContext] | None = None


T = TypeVar("T")


@dataclass(slots=True)
class _Merged:
    """Entries by name, each with the first file that defines it."""

    current: str = ""
    clusters: dict[str, tuple[_Cluster, Path]] = field(default_factory=dict)
    users: dict[str, tuple[_User, Path]] = field(default_factory=dict)
    contexts: dict[str, tuple[_Context, Path]] = field(default_factory=dict)


def load_access(
    kubeconfig: str | Path | None = None,
    context: str = "",
    environ: Mapping[str, str] | None = None,
    service_account: Path = SERVICE_ACCOUNT,
) -> Access:
    """Access by the given file, else the files of KUBECONFIG, else ~/.kube/config, else the service account of the pod.

    `context` overrides the current context. `InvalidInput` names the file and the field.
    """
    env = os.environ if environ is None else environ
    if kubeconfig is not None:
        try:
            return from_kubeconfig([Path(kubeconfig).expanduser()], context)
        except InvalidInput as error:
            raise error.of("--kubeconfig") from None
    listed = [Path(part) for part in env.get("KUBECONFIG", "").split(os.pathsep) if part]
    if listed:
        # As kubectl does: files of the list that do not exist are skipped.
        existing = [path for path in listed if path.exists()]
        if not existing:
            raise InvalidInput("KUBECONFIG", os.pathsep.join(map(str, listed)), "at least one file that exists")
        return from_kubeconfig(existing, context)
    home = Path(env.get("HOME", "/")) / ".kube" / "config"
    if home.exists():
        return from_kubeconfig([home], context)
    if env.get("KUBERNETES_SERVICE_HOST"):
        return in_cluster(env, service_account)
    raise InvalidInput(
        "kubeconfig",
        str(home),
        "a kubeconfig file",
        "name one with --kubeconfig or KUBECONFIG; not inside a cluster either",
    )


def in_cluster(environ: Mapping[str, str], directory: Path = SERVICE_ACCOUNT) -> Access:
    """Access of a pod by its service account."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise InvalidInput("KUBERNETES_SERVICE_HOST", "", "the API server's address", "set inside a pod only")
    if not port.isdecimal() or not 0 < int(port) < 65536:
        raise InvalidInput("KUBERNETES_SERVICE_PORT", port, "a port")
    ca = _read(directory / "ca.crt", f"{directory}/ca.crt").decode("utf-8", "replace")
    try:
        namespace = (directory / "namespace").read_text("utf-8").strip() or "default"
    except OSError:
        namespace = "default"
    token = TokenFile(directory / "token", f"{directory}/token")
    shown = f"[{host}]" if ":" in host else host
    return Access(f"https://{shown}:{port}", token, namespace, ca_pem=ca, source=str(directory))


def from_kubeconfig(paths: list[Path], context: str = "") -> Access:
    """Access by the context of merged kubeconfig files."""
    merged = _Merged()
    for path in paths:
        _merge(merged, _parse(path), path)
    files = ", ".join(map(str, paths))
    name = context or merged.current
    if not name:
        raise InvalidInput(f"{files}: current-context", "", "a context", _names(merged.contexts))
    chosen, path = _entry(merged.contexts, name, f"{files}: contexts")
    if not chosen.cluster:
        raise InvalidInput(f"{path}: contexts[{name}].cluster", "", "the name of a cluster")
    cluster, cluster_path = _entry(merged.clusters, chosen.cluster, f"{path}: contexts[{name}].cluster")
    user, user_path = _User(), path
    if chosen.user:
        user, user_path = _entry(merged.users, chosen.user, f"{path}: contexts[{name}].user")
    where = f"{cluster_path}: clusters[{chosen.cluster}]"
    server = (cluster.server or "").rstrip("/")
    if split_url(server) is None:
        raise InvalidInput(f"{where}.server", server, "https://HOST:PORT")
    verify = not cluster.insecure_skip_tls_verify
    ca = _inline(
        cluster.certificate_authority_data,
        cluster.certificate_authority,
        cluster_path,
        f"{where}.certificate-authority",
    )
    if ca and not verify:
        raise InvalidInput(
            f"{where}.insecure-skip-tls-verify", "true", "no certificate-authority beside it", "keep one of the two"
        )
    who = f"{user_path}: users[{chosen.user}]"
    headers = [("Impersonate-User", user.impersonate)] if user.impersonate else []
    headers += [("Impersonate-Group", group) for group in user.impersonate_groups or ()]
    return Access(
        server=server,
        credentials=_credentials(user, user_path, who, cluster, server, ca, verify),
        namespace=chosen.namespace or "default",
        ca_pem=ca.decode("utf-8", "replace"),
        verify=verify,
        server_name=cluster.tls_server_name or "",
        proxy=cluster.proxy_url or "",
        headers=tuple(headers),
        source=files,
    )


def _credentials(
    user: _User, path: Path, who: str, cluster: _Cluster, server: str, ca: bytes, verify: bool
) -> CredentialSource:
    if user.auth_provider is not None:
        raise InvalidInput(f"{who}.auth-provider", "(given)", "exec", "auth providers left Kubernetes in v1.26")
    pem = _inline(user.client_certificate_data, user.client_certificate, path, f"{who}.client-certificate")
    key = _inline(user.client_key_data, user.client_key, path, f"{who}.client-key")
    if bool(pem) != bool(key):
        raise InvalidInput(
            f"{who}.client-{'key' if pem else 'certificate'}", "", "both a client certificate and its key"
        )
    certificate = Certificate(pem, key) if pem else None
    if user.exec is not None:
        return _exec_plugin(user.exec, path, f"{who}.exec", cluster, server, ca, verify)
    if user.token_file:
        return TokenFile(path.parent / user.token_file, f"{who}.tokenFile", certificate)
    if user.token:
        if not user.token.isprintable():
            raise InvalidInput(f"{who}.token", "(not shown)", "a token of one line")
        return FixedCredential(Credential(f"Bearer {user.token}", certificate))
    if user.username:
        return FixedCredential(Credential(basic(user.username, user.password or ""), certificate))
    return FixedCredential(Credential("", certificate))


def _exec_plugin(
    plugin: _Exec, path: Path, where: str, cluster: _Cluster, server: str, ca: bytes, verify: bool
) -> ExecPlugin:
    if plugin.interactive_mode == "Always":
        raise InvalidInput(
            f"{where}.interactiveMode", "Always", "Never or IfAvailable", "there is no terminal to ask at"
        )
    command = plugin.command
    if not command:
        raise InvalidInput(f"{where}.command", "", "a program")
    if os.sep in command and not os.path.isabs(command):
        command = str(path.parent.absolute() / command)
    info: dict[str, object] | None = None
    if plugin.provide_cluster_info:
        info = {"server": server, "insecure-skip-tls-verify": not verify}
        if ca:
            info["certificate-authority-data"] = base64.b64encode(ca).decode("ascii")
        if cluster.tls_server_name:
            info["tls-server-name"] = cluster.tls_server_name
        if cluster.proxy_url:
            info["proxy-url"] = cluster.proxy_url
    env = {variable.name: variable.value for variable in plugin.env or ()}
    return ExecPlugin(
        where, command, tuple(plugin.args or ()), env, plugin.api_version, info, plugin.install_hint or ""
    )


def _parse(path: Path) -> _Config:
    import msgspec.yaml

    raw = _read(path, f"{path}")
    try:
        return msgspec.yaml.decode(raw, type=_Config | None) or _Config()
    except msgspec.ValidationError as error:
        # msgspec says "... - at `$.users[0].user.token`"
        text, _, at = str(error).partition(" - at `$.")
        raise InvalidInput(f"{path}: {at.rstrip('`') or 'kubeconfig'}", "(not shown)", text) from None
    except UNREADABLE as error:
        raise InvalidInput(f"{path}", "(not shown)", "a kubeconfig as YAML", str(error)) from None


def _merge(merged: _Merged, config: _Config, path: Path) -> None:
    merged.current = merged.current or config.current_context or ""
    for cluster in config.clusters or ():
        merged.clusters.setdefault(cluster.name, (cluster.cluster or _Cluster(), path))
    for user in config.users or ():
        merged.users.setdefault(user.name, (user.user or _User(), path))
    for context in config.contexts or ():
        merged.contexts.setdefault(context.name, (context.context or _Context(), path))


def _entry(entries: Mapping[str, tuple[T, Path]], name: str, field_name: str) -> tuple[T, Path]:
    try:
        return entries[name]
    except KeyError:
        raise InvalidInput(field_name, name, "a name that is defined", _names(entries)) from None


def _names(entries: Mapping[str, object]) -> str:
    return f"there are: {', '.join(sorted(entries))}" if entries else "none is defined"


def _inline(data: str | None, file: str | None, path: Path, field_name: str) -> bytes:
    """Inline base64 data, which wins as in kubectl, or the file's content; empty where neither is given."""
    if data:
        try:
            return base64.b64decode("".join(data.split()), validate=True)
        except (binascii.Error, ValueError):
            raise InvalidInput(f"{field_name}-data", "(not shown)", "base64") from None
    return _read(path.parent / file, field_name) if file else b""


def _read(path: Path, field_name: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidInput(field_name, str(path), "a readable file", error.strerror or str(error)) from error
