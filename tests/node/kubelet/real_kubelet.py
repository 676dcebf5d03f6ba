"""A real kubelet by itself, on this machine's v1 trees, or with systemd's slices on cgroup v2: static pods, or those of
an API server where a kubeconfig is given; a containerd of the test's own.

Limits: no cgroupfs on cgroup v2. It sets the kernel's tunables (panic, overcommit) as every kubelet does, on the
machine that it runs on.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.fakes.node.kubelet.pods import Container, Pod
from tests.fakes.node.kubelet.systemd import slice_path
from tests.fakes.waiting import eventually, patience

NAMED = "COTENANT_TEST_KUBELET"
FILES = {
    "cpu": ("cpu.shares", "cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.idle"),
    "cpuset": ("cpuset.cpus",),
    "memory": ("memory.limit_in_bytes",),
    "pids": ("pids.max",),
}
NONE: Mapping[str, str] = {}
HOSTNAME = "cotenant-test"  # and its node's name
START_S = 90.0
RESERVED_M = 500  # the static policy wants some
READY = b"Starting Kubelet Plugin Manager"  # what it says right after it has set up its groups


class RealKubelet:
    """`top`: the group that is its whole machine (`cgroupRoot`). `systemd`: its groups are slices instead, and it has
    the machine.
    """

    def __init__(
        self,
        program: str,
        folder: Path,
        top: str,
        socket: str,
        image: str,
        static_cpus: bool = False,
        systemd: bool = False,
        kubeconfig: Path | None = None,
    ) -> None:
        self.folder, self.top, self.image, self.systemd = folder, top, image, systemd
        self.manifests = folder / "manifests"
        self.manifests.mkdir()
        config = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "cgroupRoot": "" if systemd else f"/{top}",
            "cgroupDriver": "systemd" if systemd else "cgroupfs",
            "failCgroupV1": systemd,
            "containerRuntimeEndpoint": f"unix://{socket}",
            "staticPodPath": str(self.manifests),
            "fileCheckFrequency": "1s",
            "enableServer": False,
            "healthzPort": 0,
            "failSwapOn": False,
            "resolvConf": "",
            "makeIPTablesUtilChains": False,
            "evictionHard": {"memory.available": "0%", "nodefs.available": "0%", "imagefs.available": "0%"},
            "podLogsDir": str(folder / "pods"),
            "volumePluginDir": str(folder / "plugins"),
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
        }
        if static_cpus:
            config |= {"cpuManagerPolicy": "static", "systemReserved": {"cpu": f"{RESERVED_M}m"}}
        (folder / "kubelet.json").write_text(json.dumps(config))
        self.command = [
            program,
            f"--config={folder / 'kubelet.json'}",
            f"--root-dir={folder / 'kubelet'}",
            f"--cert-dir={folder / 'certificates'}",
            f"--hostname-override={HOSTNAME}",
            *([f"--kubeconfig={kubeconfig}"] if kubeconfig is not None else []),
        ]
        self.log = folder / "kubelet.log"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Until it has set up its groups and says so. Fails with its last words where it ends instead."""
        before = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log, env={"PATH": os.environ["PATH"]})

        def started() -> bool:
            assert self.process is not None
            assert self.process.poll() is None, self.said()
            with self.log.open("rb") as log:
                log.seek(before)
                return READY in log.read()

        eventually("the kubelet runs", started, START_S)

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(patience(30))
            self.process = None

    def end(self) -> None:
        """For good: it has mounted its folder on itself."""
        self.stop()
        subprocess.run(["umount", "--lazy", str(self.folder / "kubelet")], capture_output=True, check=False)

    def add(self, name: str, pod: Pod, labels: Mapping[str, str] = NONE, annotations: Mapping[str, str] = NONE) -> None:
        """Until its containers run."""
        (self.manifests / f"{name}.json").write_text(json.dumps(_manifest(name, pod, self.image, labels, annotations)))
        wanted = len(pod.containers) + 1
        eventually(
            f"{name} runs", lambda: self._containers(pod) == wanted and self._entered(pod), START_S, interval_s=0.1
        )

    def remove(self, name: str, pod: Pod) -> None:
        """Until its group is gone."""
        (self.manifests / f"{name}.json").unlink()
        eventually(f"{name} is gone", lambda: not self._group(pod).exists(), START_S, interval_s=0.1)

    def pod_path(self, pod: Pod) -> str:
        """Below its machine's root."""
        return os.path.relpath(self._group(pod), "/sys/fs/cgroup" if self.systemd else f"/sys/fs/cgroup/cpu/{self.top}")

    def said(self) -> str:
        """Its last words."""
        return self.log.read_text(errors="replace")[-3000:]

    def _group(self, pod: Pod) -> Path:
        if self.systemd:
            return Path("/sys/fs/cgroup", slice_path(["kubepods", *filter(None, [pod.qos.value]), f"pod{pod.uid}"]))
        return Path("/sys/fs/cgroup/cpu", self.top, "kubepods", pod.qos.value, f"pod{pod.uid}")

    def _containers(self, pod: Pod) -> int:
        return sum(1 for path in self._group(pod).glob("*") if path.is_dir()) if self._group(pod).exists() else 0

    def _entered(self, pod: Pod) -> bool:
        return all((path / "cgroup.procs").read_text() for path in self._group(pod).iterdir() if path.is_dir())


def values(trees: Mapping[str, Path]) -> dict[str, object]:
    """What stands in the kubelet's groups: by group and file, a pod's containers without their names and in no
    order.
    """
    found: dict[str, object] = {}
    for folder, inner, _ in os.walk(trees["cpu"] / "kubepods"):
        group = os.path.relpath(folder, trees["cpu"])
        if group.rpartition("/")[2].startswith("pod"):
            found[f"{group}: containers"] = sorted(_values(trees, f"{group}/{name}") for name in inner)
            inner.clear()
        found[group] = _values(trees, group)
    return found


def _values(trees: Mapping[str, Path], group: str) -> tuple[str, ...]:
    return tuple(
        f"{file}={(trees[tree] / group / file).read_text().strip()}" for tree, files in FILES.items() for file in files
    )


def _manifest(name: str, pod: Pod, image: str, labels: Mapping[str, str], annotations: Mapping[str, str]) -> object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": pod.uid,
            "labels": labels,
            "annotations": annotations,
        },
        "spec": {
            "hostNetwork": True,
            "terminationGracePeriodSeconds": 0,
            "containers": [_container(container, image) for container in pod.containers],
        },
    }


def _container(container: Container, image: str) -> object:
    amounts = {
        "requests": {"cpu": f"{container.cpu_request_m}m", "memory": str(container.memory_request_bytes)},
        "limits": {"cpu": f"{container.cpu_limit_m}m", "memory": str(container.memory_limit_bytes)},
    }
    given = {
        kind: {key: name for key, name in amount.items() if name not in ("0m", "0")} for kind, amount in amounts.items()
    }
    return {"name": container.name, "image": image, "imagePullPolicy": "Never", "resources": given}
