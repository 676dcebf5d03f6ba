"""Discovery from the founding layout of pods: one folder per pod with a `pod.info` file.

The founding agent found pods by `KUBELET/pods/*/pod.info`: namespace, name, UID, QoS class, tenant. Its documents name
the fields but not the syntax. A JSON object, or lines of `key=value` or `key: value`; keys in any of the usual
spellings. The folder's name is the UID where none is given. The pods' groups come from the tree by UID.
Limits: a pod without a kubelet group is left out; an unreadable or malformed file is skipped and listed in `wrong`.
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
import stat
from pathlib import Path

import msgspec

from cotenant.drivers.kubelet.declared import DeclaredPod, join
from cotenant.drivers.kubelet.tree import KubepodsTree
from cotenant.model.cluster.qos import KubernetesQoS, QoSClass, qos_of_label
from cotenant.model.errors import InvalidInput, Transient, Unsupported
from cotenant.model.machine.node_pod import NodePod

PODS = "/var/lib/kubelet/pods"
NAME = "pod.info"
_MAX_BYTES = 64 * 1024
_LINE = re.compile(r"\s*([A-Za-z][A-Za-z0-9_.-]*)\s*[=:]\s*(.*?)\s*")
_KEYS = {
    "namespace": "namespace",
    "name": "name",
    "podname": "name",
    "uid": "uid",
    "poduid": "uid",
    "qos": "qos",
    "qosclass": "qos",
    "tenant": "tenant",
    "tenantid": "tenant",
}
_KUBERNETES = {qos.value.lower(): qos for qos in KubernetesQoS}


def parse_pod_info(text: str, folder: str = "") -> DeclaredPod:
    """Parse one file. `folder`: the UID where none is given. Raises `InvalidInput` without a name, a UID or a known
    class.
    """
    fields = _pairs(text)
    uid = fields.get("uid", "") or folder
    if not uid or not fields.get("name"):
        raise InvalidInput("pod.info", text[:60], "at least a name and a UID, as JSON or as lines of key=value")
    written = fields.get("qos", "")
    qos, kubernetes = qos_of_label(written.upper()), _KUBERNETES.get(written.lower().replace("-", ""))
    if written and qos is QoSClass.NONE and kubernetes is None:
        raise InvalidInput("pod.info qos", written, "a class of Koordinator's or of Kubernetes'")
    return DeclaredPod(
        uid=uid,
        namespace=fields.get("namespace", ""),
        name=fields["name"],
        qos=qos,
        tenant=fields.get("tenant", ""),
        kubernetes_qos=kubernetes,
    )


class PodInfoFolder:
    """Implements engine/node/interfaces.PodDiscovery: the files below `folder`, with the groups of `tree`."""

    def __init__(self, tree: KubepodsTree, folder: str = PODS) -> None:
        self._tree = tree
        self._folder = Path(folder)
        self.wrong: tuple[str, ...] = ()  # files skipped at the last reading, and why

    async def pods(self) -> tuple[NodePod, ...]:
        """All pods that have both a file and a group. Raises `Unsupported` where there is no such folder."""
        return await asyncio.to_thread(self.read)

    def read(self) -> tuple[NodePod, ...]:
        """The same, blocking."""
        try:
            folders = sorted(entry.name for entry in os.scandir(self._folder) if entry.is_dir(follow_symlinks=False))
        except FileNotFoundError as error:
            raise Unsupported("pods by pod.info", f"the folder {self._folder}") from error
        except OSError as error:
            raise Transient(f"{self._folder}: {error.strerror}") from error
        declared: list[DeclaredPod] = []
        wrong: list[str] = []
        for name in folders:
            try:
                declared.append(parse_pod_info(_text(self._folder / name / NAME), name))
            except FileNotFoundError:
                continue  # a pod without pod.info, or gone
            except (OSError, InvalidInput) as error:
                wrong.append(f"{name}/{NAME}: {error}")
        self.wrong = tuple(wrong)
        uids = {pod.uid for pod in declared}
        return join((pod for pod in self._tree.read() if pod.uid in uids), declared)


def _pairs(text: str) -> dict[str, str]:
    if text.lstrip().startswith("{"):
        try:
            found = msgspec.json.decode(text, type=dict[str, object])
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise InvalidInput("pod.info", text[:60], f"a JSON object ({error})") from error
        pairs = {key: value for key, value in found.items() if isinstance(value, str)}
    else:
        matches = (_LINE.fullmatch(line) for line in text.splitlines() if not line.lstrip().startswith("#"))
        pairs = {match[1]: match[2].strip("\"'") for match in matches if match is not None}
    known = ((_KEYS.get(re.sub(r"[^a-z]", "", key.lower())), value) for key, value in pairs.items())
    return {key: value for key, value in known if key is not None}


def _text(path: Path) -> str:
    """A small regular file, links not followed."""
    at = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        seen = os.fstat(at)
        if not stat.S_ISREG(seen.st_mode) or seen.st_size > _MAX_BYTES:
            raise OSError(errno.EFBIG, f"not a file of at most {_MAX_BYTES} bytes")
        return os.read(at, _MAX_BYTES).decode("utf-8", "replace")
    finally:
        os.close(at)
