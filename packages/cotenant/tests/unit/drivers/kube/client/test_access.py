"""Every documented form of kubeconfig, and what a person is told about a wrong one."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from pathlib import Path
from typing import Any

import pytest

from cotenant.drivers.kube.client.access import Access, from_kubeconfig, in_cluster, load_access
from cotenant.drivers.kube.client.credentials import Credential, ExecPlugin
from cotenant.model.errors import InvalidInput, Transient


def config(tmp_path: Path, name: str = "config", **parts: Any) -> Path:
    """A kubeconfig file; JSON is YAML."""
    cluster = {"server": "https://h:6443"} | parts.get("cluster", {})
    whole = {
        "current-context": parts.get("current", "c"),
        "clusters": parts.get("clusters", [{"name": "k", "cluster": cluster}]),
        "users": parts.get("users", [{"name": "u", "user": parts.get("user", {"token": "secret"})}]),
        "contexts": parts.get("contexts", [{"name": "c", "context": {"cluster": "k", "user": "u", "namespace": "ns"}}]),
        "preferences": {"colors": True},
        "extensions": [],
    }
    path = tmp_path / name
    path.write_text(json.dumps(whole))
    return path


def credential(access: Access, now_s: float = 0.0) -> Credential:
    async def main() -> Credential:
        return access.credentials.current(now_s) or await access.credentials.renew(now_s)

    return asyncio.run(main())


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, bytes]:
    """A self-signed certificate and its key."""
    from datetime import UTC, datetime

    x509 = pytest.importorskip("cryptography.x509")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "someone")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(datetime(2020, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2120, 1, 1, tzinfo=UTC))
        .sign(key, hashes.SHA256())
    )
    form = serialization.PrivateFormat.PKCS8
    secret = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    return made.public_bytes(serialization.Encoding.PEM), secret


def test_token(tmp_path: Path) -> None:
    access = load_access(config(tmp_path))
    assert (access.server, access.namespace, access.verify) == ("https://h:6443", "ns", True)
    assert credential(access).authorization == "Bearer secret"
    assert "secret" not in repr(access)


def test_basic_and_impersonation(tmp_path: Path) -> None:
    user = {"username": "me", "password": "pw", "as": "you", "as-groups": ["a", "b"]}
    access = load_access(config(tmp_path, user=user))
    assert credential(access).authorization == "Basic " + base64.b64encode(b"me:pw").decode()
    assert access.headers == (("Impersonate-User", "you"), ("Impersonate-Group", "a"), ("Impersonate-Group", "b"))


def test_token_file_is_read_again(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("one\n")
    access = load_access(config(tmp_path, user={"tokenFile": "t", "token": "ignored"}))
    assert credential(access, 0.0).authorization == "Bearer one"
    (tmp_path / "t").write_text("two\n")
    assert credential(access, 59.0).authorization == "Bearer one"
    assert credential(access, 61.0).authorization == "Bearer two"
    (tmp_path / "t").unlink()
    assert credential(access, 200.0).authorization == "Bearer two"  # it is being replaced
    (tmp_path / "t").write_text("three")
    access.credentials.reject(Credential("Bearer two"))
    assert credential(access, 201.0).authorization == "Bearer three"


def test_certificates_inline_and_in_files(tmp_path: Path, pem: tuple[bytes, bytes]) -> None:
    certificate, key = pem
    (tmp_path / "cert.pem").write_bytes(certificate)
    (tmp_path / "key.pem").write_bytes(key)
    encoded = {
        "client-certificate-data": base64.b64encode(certificate).decode(),
        "client-key-data": base64.b64encode(key).decode(),
    }
    for user in ({"client-certificate": "cert.pem", "client-key": "key.pem"}, encoded):
        access = load_access(config(tmp_path, user=user, cluster={"certificate-authority": "cert.pem"}))
        found = credential(access)
        assert found.certificate is not None
        assert found.certificate.key == key
        assert access.ca_pem.encode() == certificate
        context = access.ssl_context(found.certificate)
        assert context is not None
        assert context.verify_mode is ssl.CERT_REQUIRED
        assert context.cert_store_stats()["x509"] == 1


def test_insecure_and_server_name(tmp_path: Path) -> None:
    cluster = {"insecure-skip-tls-verify": True, "tls-server-name": "api", "proxy-url": "http://p:1"}
    access = load_access(config(tmp_path, cluster=cluster))
    context = access.ssl_context()
    assert context is not None
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_NONE, False)
    assert (access.server_name, access.proxy) == ("api", "http://p:1")
    assert load_access(config(tmp_path, cluster={"server": "http://h:1/"})).ssl_context() is None


def test_several_files_the_first_to_say_something_wins(tmp_path: Path) -> None:
    first = config(
        tmp_path, "one", clusters=[{"name": "k", "cluster": {"server": "https://first"}}], users=[], contexts=[]
    )
    second = config(tmp_path, "two", current="other", clusters=[{"name": "k", "cluster": {"server": "https://second"}}])
    environ = {"KUBECONFIG": f"{tmp_path}/absent:{first}:{second}"}
    access = load_access(environ=environ)
    assert access.server == "https://first"
    assert credential(access).authorization == "Bearer secret"


def test_context_choice(tmp_path: Path) -> None:
    contexts = [{"name": n, "context": {"cluster": "k", "user": "u", "namespace": n}} for n in ("c", "d")]
    path = config(tmp_path, contexts=contexts)
    assert load_access(path).namespace == "c"
    assert load_access(path, context="d").namespace == "d"
    with pytest.raises(InvalidInput, match="there are: c, d"):
        load_access(path, context="e")


def test_home_then_in_cluster(tmp_path: Path) -> None:
    account = tmp_path / "account"
    account.mkdir()
    for name, text in (("token", "t"), ("ca.crt", "CA"), ("namespace", "mine")):
        (account / name).write_text(text)
    environ = {"HOME": str(tmp_path), "KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}
    access = load_access(environ=environ, service_account=account)
    assert (access.server, access.namespace, access.ca_pem) == ("https://[fd00::1]:6443", "mine", "CA")
    assert credential(access).authorization == "Bearer t"
    (tmp_path / ".kube").mkdir()
    config(tmp_path / ".kube")
    assert load_access(environ=environ, service_account=account).server == "https://h:6443"
    with pytest.raises(InvalidInput, match="kubeconfig"):
        load_access(environ={"HOME": str(account)})
    with pytest.raises(InvalidInput, match="KUBERNETES_SERVICE_PORT"):
        in_cluster({"KUBERNETES_SERVICE_HOST": "h", "KUBERNETES_SERVICE_PORT": "x"}, account)


@pytest.mark.parametrize(
    ("parts", "named"),
    [
        ({"current": ""}, "current-context"),
        ({"current": "x"}, "contexts"),
        ({"contexts": [{"name": "c", "context": {"cluster": "x"}}]}, "contexts[c].cluster"),
        ({"contexts": [{"name": "c", "context": {"cluster": "k", "user": "x"}}]}, "contexts[c].user"),
        ({"contexts": [{"name": "c"}]}, "contexts[c].cluster"),
        ({"cluster": {"server": "h:6443"}}, "clusters[k].server"),
        ({"cluster": {"server": "https://[::1"}}, "clusters[k].server"),
        ({"cluster": {"server": "https://h:65536"}}, "clusters[k].server"),
        ({"cluster": {"server": 5}}, "clusters[0].cluster.server"),
        ({"cluster": {"certificate-authority": "absent"}}, "clusters[k].certificate-authority"),
        ({"cluster": {"certificate-authority-data": "%"}}, "clusters[k].certificate-authority-data"),
        (
            {"cluster": {"certificate-authority-data": "QQ==", "insecure-skip-tls-verify": True}},
            "clusters[k].insecure-skip-tls-verify",
        ),
        ({"user": {"client-key-data": "QQ=="}}, "users[u].client-certificate"),
        ({"user": {"client-certificate-data": "QQ=="}}, "users[u].client-key"),
        ({"user": {"token": "a\nb"}}, "users[u].token"),
        ({"user": {"token": ["a"]}}, "users[0].user.token"),
        ({"user": {"auth-provider": {"name": "gcp"}}}, "users[u].auth-provider"),
        ({"user": {"exec": {"command": "x", "apiVersion": "v2"}}}, "users[u].exec.apiVersion"),
        (
            {
                "user": {
                    "exec": {
                        "command": "x",
                        "apiVersion": "client.authentication.k8s.io/v1",
                        "interactiveMode": "Always",
                    }
                }
            },
            "users[u].exec.interactiveMode",
        ),
    ],
)
def test_mistakes_name_file_and_field(tmp_path: Path, parts: dict[str, Any], named: str) -> None:
    path = config(tmp_path, **parts)
    with pytest.raises(InvalidInput) as caught:
        from_kubeconfig([path])
    assert str(path) in caught.value.field
    assert named in caught.value.field


@pytest.mark.parametrize("text", ["a: [", "- 1\n", "\x00"])
def test_files_that_are_no_kubeconfig(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(InvalidInput, match="config"):
        load_access(path)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="absent"):
        load_access(tmp_path / "absent")
    with pytest.raises(InvalidInput, match="KUBECONFIG"):
        load_access(environ={"KUBECONFIG": str(tmp_path / "absent")})


def test_bad_certificates_are_named(tmp_path: Path) -> None:
    data = base64.b64encode(b"no certificate").decode()
    access = load_access(config(tmp_path, user={"client-certificate-data": data, "client-key-data": data}))
    with pytest.raises(InvalidInput, match="client-certificate"):
        access.ssl_context(credential(access).certificate)
    access = load_access(config(tmp_path, cluster={"certificate-authority-data": data}))
    with pytest.raises(InvalidInput, match="certificate-authority"):
        access.ssl_context()


def plugin(tmp_path: Path, body: str, version: str = "v1", **more: Any) -> Access:
    """Access by an exec plugin that is a shell script beside the kubeconfig."""
    script = tmp_path / "plugin"
    script.write_text(f"#!/bin/sh\n{body}\n")
    script.chmod(0o755)
    api = f"client.authentication.k8s.io/{version}"
    user = {"exec": {"command": "./plugin", "apiVersion": api, "interactiveMode": "IfAvailable"} | more}
    return load_access(config(tmp_path, user=user))


def printed(version: str = "v1", **status: str) -> str:
    shown = {"kind": "ExecCredential", "apiVersion": f"client.authentication.k8s.io/{version}", "status": status}
    return f"echo '{json.dumps(shown)}'"


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_exec_plugin(tmp_path: Path, version: str) -> None:
    access = plugin(tmp_path, printed(version, token="t1"), version)
    assert credential(access).authorization == "Bearer t1"


def test_exec_plugin_is_run_again_when_its_token_expires(tmp_path: Path) -> None:
    body = f"echo x >> {tmp_path}/runs; n=$(wc -l < {tmp_path}/runs)\n"
    body += printed(token="t'$n'", expirationTimestamp="2026-01-01T00:00:00Z")
    access = plugin(tmp_path, body)
    expires_s = 1767225600.0
    assert credential(access, expires_s - 100).authorization == "Bearer t1"
    assert credential(access, expires_s - 50).authorization == "Bearer t1"
    assert credential(access, expires_s - 5).authorization == "Bearer t2"
    access.credentials.reject(Credential("Bearer t2"))
    assert credential(access, expires_s - 100).authorization == "Bearer t3"


def test_exec_plugin_is_told_its_arguments_and_the_cluster(tmp_path: Path) -> None:
    body = f'echo "$A $1 $KUBERNETES_EXEC_INFO" > {tmp_path}/told\n' + printed(token="t")
    access = plugin(tmp_path, body, args=["arg"], env=[{"name": "A", "value": "b"}], provideClusterInfo=True)
    credential(access)
    told = (tmp_path / "told").read_text()
    assert told.startswith("b arg ")
    info = json.loads(told.removeprefix("b arg "))
    assert info["spec"] == {
        "interactive": False,
        "cluster": {"server": "https://h:6443", "insecure-skip-tls-verify": False},
    }


def test_exec_plugin_runs_once_however_many_ask(tmp_path: Path) -> None:
    access = plugin(tmp_path, f"echo x >> {tmp_path}/runs\n" + printed(token="t"))

    async def main() -> None:
        await asyncio.gather(*(access.credentials.renew(0.0) for _ in range(5)))

    asyncio.run(main())
    assert (tmp_path / "runs").read_text() == "x\n"


def test_exec_plugin_with_a_certificate(tmp_path: Path, pem: tuple[bytes, bytes]) -> None:
    certificate, key = (part.decode() for part in pem)
    access = plugin(
        tmp_path,
        printed(clientCertificateData=certificate, clientKeyData=key).replace("\\n", "\\\\n").replace("echo", "printf"),
    )
    found = credential(access)
    assert found.certificate is not None
    assert access.ssl_context(found.certificate) is not None


@pytest.mark.parametrize(
    "body", ["echo hello", "echo '{}'", printed("v1beta1", token="t"), printed(), printed(clientKeyData="k")]
)
def test_exec_plugin_that_prints_nonsense(tmp_path: Path, body: str) -> None:
    with pytest.raises(InvalidInput, match=r"users\[u\].exec: output"):
        credential(plugin(tmp_path, body))


def test_exec_plugin_that_fails(tmp_path: Path) -> None:
    with pytest.raises(Transient, match="log in first"):
        credential(plugin(tmp_path, "echo log in first >&2; exit 3"))
    with pytest.raises(InvalidInput, match="install it"):
        credential(plugin(tmp_path, "", command="no-such-program", installHint="install it"))


def test_exec_plugin_that_hangs(tmp_path: Path) -> None:
    slow = ExecPlugin("f", "sleep", ("60",), {}, "client.authentication.k8s.io/v1", timeout_s=0.05)

    async def main() -> None:
        await slow.renew(0.0)

    with pytest.raises(Transient, match="did not end"):
        asyncio.run(main())
