"""Paths of groups and images as runtimes name them."""

from __future__ import annotations

from pathlib import Path

import pytest

from cotenant.drivers.nri.containers import container_of, group_of_parent, pod_of
from cotenant.drivers.nri.messages import messages
from cotenant.drivers.nri.state_file import HANGS_AFTER_S, HookState, StateFile, read_state
from cotenant.model.kubelet.group_names import PodCgroup, read_group

UID = "0b3f7c7e-6d38-4d28-8b0f-6f6c3ad6f8f0"


@pytest.mark.parametrize(
    ("parent", "group"),
    [
        (f"/kubepods/besteffort/pod{UID}", f"kubepods/besteffort/pod{UID}"),
        (
            f"kubepods-besteffort-pod{UID.replace('-', '_')}.slice",
            "kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod0b3f7c7e_6d38_4d28_8b0f_6f6c3ad6f8f0.slice",
        ),
        ("", ""),
    ],
)
def test_a_pods_group(parent: str, group: str) -> None:
    assert group_of_parent(parent) == group
    if group:
        found = read_group(group)
        assert isinstance(found, PodCgroup)
        assert found.uid == UID


def test_labels_of_the_kubelet_are_left_out() -> None:
    pod = pod_of(messages()["PodSandbox"](labels={"app": "cart", "io.kubernetes.pod.name": "cart-1"}))
    assert dict(pod.labels.items) == {"app": "cart"}


@pytest.mark.parametrize("key", ["io.kubernetes.cri.image-name", "io.kubernetes.cri-o.ImageName"])
def test_the_image_by_the_runtimes_annotation(key: str) -> None:
    assert (
        container_of(messages()["Container"](annotations={key: "r.example/team/cart:1"})).image
        == "r.example/team/cart:1"
    )


def test_a_living_hook_is_seen_and_a_dead_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "run" / "nri.json"
    assert read_state(path) is None
    file = StateFile(path)
    assert read_state(path) == HookState()  # it has not said anything yet
    file.write(HookState("containerd 1.7.24", acts=True))
    file.write(HookState("crio 1.32", acts=True))
    assert read_state(path) == HookState("crio 1.32", acts=True)
    file.write(HookState())
    assert read_state(path) == HookState()
    with pytest.raises(BlockingIOError):
        StateFile(path)
    file.close()
    assert read_state(path) is None
    path.write_text('{"runtime": "left behind"}')  # as after kill -9
    assert read_state(path) is None
    StateFile(path)
    assert read_state(path) == HookState()  # not what another process left


def test_a_hook_that_lives_and_hangs_is_seen_as_hanging(tmp_path: Path) -> None:
    path, now_s = tmp_path / "nri.json", [100.0]
    file = StateFile(path, lambda: now_s[0])
    file.write(HookState("containerd 2.1.0", acts=True))
    now_s[0] += HANGS_AFTER_S
    assert read_state(path, lambda: now_s[0]) == HookState("containerd 2.1.0", acts=True)
    now_s[0] += 1
    assert read_state(path, lambda: now_s[0]) == HookState("containerd 2.1.0", acts=True, hangs=True)
    file.write(HookState("containerd 2.1.0", acts=True))  # it has yet to read that its runtime has parted with it
    assert read_state(path, lambda: now_s[0]) == HookState("containerd 2.1.0", acts=True, hangs=True)
    file.write(HookState("containerd 2.1.0", acts=True))
    assert read_state(path, lambda: now_s[0]) == HookState("containerd 2.1.0", acts=True)
