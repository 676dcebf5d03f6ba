"""The webhook process over TLS against an API server: when it is ready, what it answers, and what it registers."""

from __future__ import annotations

import asyncio
import base64
import datetime
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession
from tests.fakes.servers.fake_api import FakeApi
from tests.fakes.waiting import soon

from cotenant.drivers.http.certificates import Certificates, ensure
from cotenant.model.errors import InvalidInput
from cotenant.services.webhook.webhook_arguments import NAME, WebhookSettings
from cotenant.services.webhook.webhook_process import serve

KINDS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")


@dataclass
class Running:
    api: FakeApi
    url: str
    made: Certificates

    async def ask(self, path: str, body: Any = None) -> tuple[int, str]:
        """Only where the certificate is trusted by its authority."""
        trusted = ssl.create_default_context(cadata=self.made.authority_pem.decode())
        method = "GET" if body is None else "POST"
        async with (
            ClientSession() as session,
            session.request(method, self.url + path, json=body, ssl=trusted) as answer,
        ):
            return answer.status, await answer.text()

    async def is_ready(self) -> bool:
        return (await self.ask("/readyz"))[0] == 200

    async def review(self, labels: dict[str, str], namespace: str = "default", cpu: str = "1") -> dict[str, Any]:
        meta = {"name": "p", "namespace": namespace, "labels": labels}
        resources = {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}
        pod = {
            "apiVersion": "v1", "kind": "Pod", "metadata": meta,
            "spec": {"containers": [{"name": "c", "image": "i", "resources": resources}]},
        }  # fmt: skip
        asked = {
            "uid": "r1", "operation": "CREATE", "namespace": namespace, "name": "p", "object": pod,
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
        }  # fmt: skip
        body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}
        status, text = await self.ask("/validate-pod", body)
        assert status == 200, text
        answer: dict[str, Any] = json.loads(text)["response"]
        assert answer["uid"] == "r1"
        return answer


def kubeconfig(folder: Path, url: str) -> Path:
    path = folder / "kubeconfig"
    cluster = {"clusters": [{"name": "c", "cluster": {"server": url}}], "current-context": "c"}
    users = {"users": [{"name": "u", "user": {}}], "contexts": [{"name": "c", "context": {"cluster": "c"}}]}
    path.write_text(json.dumps({**cluster, **users}))
    return path


@asynccontextmanager
async def running(folder: Path, **more: Any) -> AsyncIterator[Running]:
    made = ensure(folder / "tls", ("127.0.0.1", "localhost"), datetime.datetime.now(datetime.UTC))
    async with FakeApi() as api:
        settings = WebhookSettings(
            kubeconfig=kubeconfig(folder, api.url),
            listen="127.0.0.1:0",
            namespace="hooks",
            tls_cert=made.certificate,
            tls_key=made.key,
            leader_elect=False,
            inject_every_s=0.05,
        )
        stop, urls = asyncio.Event(), list[str]()
        task = asyncio.create_task(serve(replace(settings, **more), stop, urls.append))
        try:
            await soon("it listens", lambda: bool(urls) or task.done())
            if task.done():
                task.result()
            yield Running(api, urls[0].rstrip("/"), made)
        finally:
            stop.set()
            await asyncio.gather(task, return_exceptions=True)


def played(scene: Callable[[], Awaitable[None]]) -> None:
    async def play() -> None:
        await scene()

    asyncio.run(play())


def test_once_all_is_listed_it_judges_pods(tmp_path: Path) -> None:
    async def scene() -> None:
        async with running(tmp_path) as webhook:
            await soon("it is ready", webhook.is_ready)
            assert (await webhook.ask("/healthz"))[0] == 200
            assert (await webhook.review({}))["allowed"] is True
            refused = await webhook.review({"koordinator.sh/qosClass": "BE"})
            assert refused["allowed"] is False
            for namespace in ("kube-system", "hooks"):  # its own, in which it is a pod
                allowed = await webhook.review({"koordinator.sh/qosClass": "BE"}, namespace)
                assert allowed["allowed"] is True
            page = (await webhook.ask("/metrics"))[1]
            assert "cotenant_webhook_" in page
            ends = [line for line in page.splitlines() if "certificate" in line and not line.startswith("#")]
            assert ends
            assert all(float(line.rpartition(" ")[2]) > 1e9 for line in ends)
            assert not any(method != "GET" for method, _ in webhook.api.requests)

    played(scene)


@pytest.mark.parametrize(("policy", "url"), [("Ignore", ""), ("Fail", "https://hooks.example:8443")])
def test_registered_it_is_called_at_its_url_with_its_authority(policy: str, url: str, tmp_path: Path) -> None:
    async def scene() -> None:
        authority = tmp_path / "tls" / "ca.crt"
        async with running(tmp_path, register=True, failure_policy=policy, url=url, ca_file=authority) as webhook:
            await soon("both are registered", lambda: all(webhook.api.objects[kind] for kind in KINDS))
            bundle = base64.b64encode(authority.read_bytes()).decode()
            for kind in KINDS:
                configuration = webhook.api.objects[kind][NAME]
                assert configuration["webhooks"]
                for hook in configuration["webhooks"]:
                    assert hook["clientConfig"]["caBundle"] == bundle
                    assert hook["clientConfig"]["url"].startswith(url or webhook.url)
                    assert hook["failurePolicy"] == policy
            refused = await webhook.review({"koordinator.sh/qosClass": "BE"}, "hooks")
            assert refused["allowed"] is False  # no pod of the cluster: nothing of its own to start

    played(scene)


def test_with_certificates_of_others_nothing_is_written(tmp_path: Path) -> None:
    async def scene() -> None:
        async with running(tmp_path) as webhook:
            await soon("it is ready", webhook.is_ready)
            assert not any("webhookconfigurations" in path for _, path in webhook.api.requests)

    played(scene)


def test_an_authority_of_others_is_looked_for_in_their_configurations(tmp_path: Path) -> None:
    async def scene() -> None:
        async with running(tmp_path, ca_file=tmp_path / "tls" / "ca.crt") as webhook:
            looked = [f"/{kind}/{NAME}" for kind in KINDS]
            await soon(
                "both are looked for",
                lambda: all(any(path.endswith(end) for _, path in webhook.api.requests) for end in looked),
            )
            assert not any(webhook.api.objects[kind] for kind in KINDS)

    played(scene)


def test_an_authority_that_is_missing_is_said_before_anything_is_served(tmp_path: Path) -> None:
    async def scene() -> None:
        async with running(tmp_path, ca_file=tmp_path / "none"):
            raise AssertionError("it is served")

    with pytest.raises(InvalidInput, match="--ca-file"):
        played(scene)
