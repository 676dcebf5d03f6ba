"""Cost and latency of the admission webhook, as an API server calls it: over TLS, keep-alive, /mutate-pod and then
/validate-pod for each pod.

The server is a separate process with the application, HTTP server and certificates of `cotenant webhook`, and profiles
as if they had been listed. The caller sends pods of about 3 KB (two containers, volumes, managed fields) in
AdmissionReviews, at a fixed rate, each due at its time: a late answer delays the ones after it, and counts. Rows: no
profile that matches, 1 profile, 50 profiles of which one matches, and 50 that all match.
`rules_ms_pod`: CPU time of both reviews of a pod without HTTP (decoding, rules, patch, encoding), the median of nine
rounds. `cpu_ms_pod`: the server's on-CPU time (user and system, TLS included) for both reviews of a pod; `p50_ms`,
`p99_ms`: the sum of both answers as the caller waits, at `rate` pods a second. Goals: 0.3 ms of CPU a pod with 1
profile, 1 ms with 50; p99 of 10 ms at 200 a second on two cores. `load_1min` says how busy the machine was: above its
cores, latencies measure others.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from bench.extender import cpu_ns
from bench.machine import machine, show
from cotenant.drivers.http.address import Address, bind
from cotenant.drivers.http.pages import HealthPages
from cotenant.drivers.http.server import HttpServer
from cotenant.drivers.http.tls import Tls
from cotenant.drivers.http.traffic import ServerTraffic
from cotenant.drivers.metrics.registry import MetricsRegistry
from cotenant.model.cluster.colocation_profile import ColocationProfile, PriorityClassValue
from cotenant.model.cluster.labels import Labels, LabelSelector
from cotenant.model.cluster.observed import NamespaceFacts
from cotenant.model.cluster.qos import QoSClass
from cotenant.model.groups.quota import Quota
from cotenant.services.certificates.material import advance
from cotenant.services.reviewing.facts import WebhookFacts
from cotenant.services.reviewing.review import read_review, write_review
from cotenant.services.reviewing.reviewer import Reviewer
from cotenant.services.reviewing.rules import ReviewRules
from cotenant.services.running import run_until_signal
from cotenant.services.webhook.app import WebhookApp
from cotenant.services.webhook.metrics import WebhookMetrics
from cotenant.services.webhook.webhook_process import LIMITS

PATHS = ("/mutate-pod", "/validate-pod")
_CASES = ((0, 0), (1, 1), (50, 1), (50, 50))  # (profiles, of which match)


def a_review(number: int) -> dict[str, Any]:
    """The review of a new pod, which 1 KB of managed fields and defaults bring to a usual size."""
    managed: dict[str, Any] = {f"f:field-{i}": {"f:nested": {}} for i in range(25)}
    resources = {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}
    container = {
        "image": "registry.example/app:1",
        "resources": resources,
        "env": [{"name": f"NAME_{i}", "value": f"value-{i}"} for i in range(8)],
        "volumeMounts": [{"name": "token", "mountPath": "/var/run/secrets/token", "readOnly": True}],
        "terminationMessagePath": "/dev/termination-log",
        "imagePullPolicy": "IfNotPresent",
    }
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "spark-5d", "uid": "u", "controller": True}
    pod = {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "generateName": "spark-5d-",
            "namespace": "jobs",
            "labels": {"app": "spark", "pod-template-hash": "5d", "kind": "batch", "number": str(number)},
            "annotations": {"note": "x" * 200},
            "ownerReferences": [owner],
            "managedFields": [{"manager": "kube-controller-manager", "operation": "Update", "fieldsV1": managed}],
        },
        "spec": {
            "volumes": [{"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}],
            "containers": [{"name": "main", **container}, {"name": "sidecar", **container}],
            "restartPolicy": "Always",
            "serviceAccountName": "default",
            "schedulerName": "default-scheduler",
            "priority": 0,
        },
        "status": {},
    }
    name = {"group": "", "version": "v1"}
    return {
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": f"00000000-0000-0000-0000-{number:012d}",
            "kind": name | {"kind": "Pod"},
            "resource": name | {"resource": "pods"},
            "namespace": "jobs",
            "operation": "CREATE",
            "userInfo": {"username": "system:serviceaccount:kube-system:replicaset-controller"},
            "object": pod,
            "oldObject": None,
            "dryRun": False,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        },
    }


def reviewer(profiles: int, matching: int) -> tuple[Reviewer, WebhookFacts]:
    """A reviewer that knows so many profiles; `matching` of them match the pods of `a_review`."""
    facts = WebhookFacts(time.monotonic)
    facts.namespace_seen(NamespaceFacts("jobs", Labels.of({"team": "a"})))
    facts.class_seen(PriorityClassValue("koord-batch", 5500, "PreemptLowerPriority"))
    for number in range(profiles):
        pods = LabelSelector.of({"app": "spark", "kind": "batch" if number < matching else "other"})
        facts.profile_seen(
            ColocationProfile(
                name=f"p{number:03}",
                namespaces=LabelSelector.of({"team": "a"}),
                pods=pods,
                labels=((f"l{number}", "1"),),
                qos=QoSClass.BE,
                priority_class="koord-batch",
            )
        )
    return Reviewer(facts, ReviewRules(), _no_pods, Random(0)), facts


async def _no_pods(_: Quota) -> bool:
    return False


async def rules_ms(profiles: int, matching: int, pods: int) -> float:
    """CPU milliseconds of a pod's two reviews without HTTP: decoding, rules, patch, encoding. The median of nine
    rounds.
    """
    asked, _ = reviewer(profiles, matching)
    bodies = [json.dumps(a_review(number), separators=(",", ":")).encode() for number in range(pods)]
    rounds = []
    for _ in range(9):
        before_s = time.process_time()
        for body in bodies:
            for path in PATHS:
                request = read_review(body)
                write_review(request.uid, await asked.review(path, request))
        rounds.append(1e3 * (time.process_time() - before_s) / pods)
    return float(np.median(rounds))


async def serve(profiles: int, matching: int, stop: asyncio.Event) -> None:
    """The webhook without an API server, until `stop`; prints its port and the bundle's file."""
    asked, facts = reviewer(profiles, matching)
    registry = MetricsRegistry()
    metrics = WebhookMetrics(registry, facts, dict, lambda: 0.0, dict)
    app = WebhookApp(asked, metrics, HealthPages(registry.page))
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        kept = advance(None, ("127.0.0.1",), datetime.now(UTC))
        (folder / "tls.crt").write_text(kept.server.certificate)
        (folder / "tls.key").write_text(kept.server.key)
        (folder / "ca.crt").write_text(kept.bundle)
        tls = Tls(folder / "tls.crt", folder / "tls.key")
        server = HttpServer(
            app, bind(Address("127.0.0.1", 0)), limits=LIMITS, tls=tls, traffic=ServerTraffic("webhook")
        )
        await server.start()
        print(server.address.port, folder / "ca.crt", flush=True)
        await stop.wait()
        await server.stop()


@contextmanager
def running(profiles: int, matching: int) -> Iterator[tuple[int, str, int]]:
    """A server; its port, the bundle's file, and its process."""
    command = [sys.executable, "-m", "bench.webhook", "--serve", str(profiles), str(matching)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port, authority = process.stdout.readline().split()
            yield int(port), authority, process.pid
        finally:
            process.terminate()
            process.wait()


async def call(port: int, authority: str, pods: int, rate: float) -> list[float]:
    """Milliseconds that each pod's two reviews took from when they were due, over one connection for each kind."""
    context = ssl.create_default_context(cafile=authority)
    lanes = {
        path: await asyncio.open_connection("127.0.0.1", port, ssl=context) for path in ("/mutate-pod", "/validate-pod")
    }
    took = []
    begun_s = time.perf_counter()
    for number in range(pods):
        body = json.dumps(a_review(number), separators=(",", ":")).encode()
        due_s = begun_s + number / rate
        await asyncio.sleep(max(0.0, due_s - time.perf_counter()))
        for path, (reader, writer) in lanes.items():
            head = (
                f"POST {path}?timeout=5s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: "
                f"{len(body)}\r\n\r\n"
            )
            writer.write(head.encode() + body)
            answer = await reader.readuntil(b"\r\n\r\n")
            length = int(answer.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
            content = await reader.readexactly(length)
            if b"200" not in answer.split(b"\r\n")[0] or b'"allowed":true' not in content:
                raise RuntimeError(content.decode())
        took.append(1e3 * (time.perf_counter() - max(due_s, begun_s)))
    for _, writer in lanes.values():
        writer.close()
    return took


def measure(profiles: int, matching: int, pods: int, rate: float) -> dict[str, Any]:
    """One row."""
    with running(profiles, matching) as (port, authority, pid):
        asyncio.run(call(port, authority, min(200, pods), rate))  # warm
        before_ns = cpu_ns(pid)
        took = asyncio.run(call(port, authority, pods, rate))
        spent_ms = (cpu_ns(pid) - before_ns) / 1e6
    p50, p99 = np.percentile(took, [50, 99])
    return {
        "profiles": profiles,
        "matching": matching,
        "pods": pods,
        "rate": rate,
        "rules_ms_pod": round(asyncio.run(rules_ms(profiles, matching, 200)), 3),
        "cpu_ms_pod": round(spent_ms / pods, 3),
        "p50_ms": round(float(p50), 2),
        "p99_ms": round(float(p99), 2),
        "load_1min": machine()["load_1min"],
    }


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pods", type=int, default=2000)
    parser.add_argument("--rate", type=float, default=200.0, help="pods a second")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--serve", nargs=2, type=int, metavar=("PROFILES", "MATCHING"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        profiles, matching = given.serve
        run_until_signal(lambda stop: serve(profiles, matching, stop))  # the event loop of the real process
        return
    show([measure(*case, given.pods, given.rate) for case in _CASES], given.json)


if __name__ == "__main__":
    main()
