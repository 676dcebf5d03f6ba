"""The processes of `deploy/` against a server under test: its service accounts and roles, and each process with the
arguments of its manifest and a token of its own account.

A process runs as a child on this machine. Of its arguments only those differ that name files of its pod or other parts'
Services: they are left out or named anew. On a server with RBAC the token comes from a TokenRequest; the local server
has neither, so the processes have its one token, and the rules are those of the files.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from tests.fakes.servers.api_roles import DEPLOY, Grant, grants_of
from tests.fakes.servers.recording_proxy import RecordingProxy
from tests.fakes.waiting import patience

Obj = dict[str, Any]
RBAC = "/apis/rbac.authorization.k8s.io/v1"
NAMESPACES = ("cotenant-system", "cotenant-node", "koordinator-system")
# of the pod, or of other parts of the installation
ELSEWHERE = (
    "--tls-cert",
    "--tls-key",
    "--client-ca",
    "--health-tls",
    "--scheduler",
    "--scheduler-ca",
    "--traces",
    "--traces-token-file",
    "--traces-ca",
    "--credit",
    "--credit-ca",
    "--credit-token-file",
)


class Part(NamedTuple):
    """A process: its manifest, what its pod has and a child does not, and its account."""

    manifest: str
    instead: tuple[str, ...] = ()  # arguments in place of those of the same name
    account: str = ""
    namespace: str = "cotenant-system"


def documents(path: str) -> list[Obj]:
    return [entry for entry in yaml.safe_load_all((DEPLOY / path).read_text()) if entry]


def _path(obj: Obj) -> str:
    group = obj["apiVersion"]
    base = f"/apis/{group}" if "/" in group else f"/api/{group}"
    namespace = obj["metadata"].get("namespace")
    return f"{base}{f'/namespaces/{namespace}' if namespace else ''}/{obj['kind'].lower()}s"


@contextmanager
def accounts(kube: Any, folders: Iterable[str]) -> Iterator[None]:
    """The namespaces, service accounts and, where the server has them, roles of `deploy/`."""
    made = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in NAMESPACES]
    for folder in folders:
        made += documents(f"{folder}/rbac.yaml")
    if kube.is_local:
        made = [entry for entry in made if not entry["apiVersion"].startswith("rbac.")]
    left = []
    for entry in made:
        if kube.request("GET", f"{_path(entry)}/{entry['metadata']['name']}").code == 404:
            kube.create(_path(entry), entry)
            left.append(f"{_path(entry)}/{entry['metadata']['name']}")
    try:
        yield
    finally:
        for path in reversed(left):
            kube.request("DELETE", path)


def token(kube: Any, part: Part) -> str:
    """A token of the part's service account."""
    if kube.is_local:
        return str(kube.token)
    path = f"/api/v1/namespaces/{part.namespace}/serviceaccounts/{part.account}/token"
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    return str(kube.create(path, asked)["status"]["token"])


def reviewed(kube: Any, bearer: str, namespace: str) -> set[Grant]:
    """What the server says that a token may do in a namespace."""
    asked = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": namespace},
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    answer = kube.ok("POST", path, asked, headers={"authorization": f"Bearer {bearer}"})
    assert not answer["status"]["incomplete"], answer["status"].get("evaluationError")
    return grants_of(answer["status"]["resourceRules"])


def arguments(part: Part) -> list[str]:
    """The arguments of the manifest's first container that names `cotenant` commands, with what a child has instead."""
    (pod,) = (
        document["spec"]["template"]["spec"]
        for document in documents(part.manifest)
        if document["kind"] in ("Deployment", "StatefulSet", "DaemonSet", "Job")
    )
    (container,) = (entry for entry in pod["containers"] if entry["image"].startswith("localhost/cotenant"))
    anew = {name.partition("=")[0]: name for name in part.instead}
    kept = [entry for entry in container["args"] if entry.partition("=")[0] not in (*ELSEWHERE, *anew)]
    return [*kept, *(name for name in part.instead if not name.endswith("=-"))]


class Child:
    """A process, ended at the end of the block; what it said is in `log`."""

    def __init__(self, words: list[str], log: Path) -> None:
        self.log = log
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "cotenant", *words], stdout=out, stderr=out, env={**os.environ, "NODE_NAME": ""}
            )

    def said(self) -> str:
        assert self._process.poll() in (None, 0), self.log.read_text()[-3000:]
        return self.log.read_text()

    def ended(self) -> bool:
        self.said()
        return self._process.poll() == 0

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(patience(20))
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


class Installation:
    """Starts processes of the manifests; their requests go through a proxy that records them."""

    def __init__(self, kube: Any, folder: Path) -> None:
        self._kube, self._folder = kube, folder
        self.proxy = RecordingProxy(kube.url, kube.trusting)
        self._children: list[Child] = []

    def start(self, name: str, part: Part) -> Child:
        config = self.proxy.kubeconfig(self._folder / f"{name}.kubeconfig", token(self._kube, part))
        words = arguments(part)
        if words[0] != "agent":  # its file names the kubeconfig
            words.append(f"--kubeconfig={config}")
        child = Child(words, self._folder / f"{name}.log")
        self._children.append(child)
        return child

    def check(self) -> None:
        """Fails with what a process said that has ended by an error: nothing that it should bring about comes any
        more.
        """
        for child in self._children:
            child.said()

    def stop(self) -> None:
        for child in self._children:
            child.stop()
        self.proxy.stop()
