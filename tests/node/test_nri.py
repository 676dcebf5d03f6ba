"""The runtime hook beside a real containerd 1.7 or later and a real CRI-O, which are started for the test with folders
of their own (`bench/containerd.py` and `bench/crio.py` say where their programs are looked for): what a container's
group and environment have before its first instruction, and that a hook that is late or dead never keeps one from
starting.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from tests.e2e.running import metric
from tests.fakes.node.kubepods import UIDS
from tests.fakes.node.mps_control import FakeMps
from tests.fakes.waiting import becomes, eventually
from tests.node.test_agent import AgentProcess

pytest.importorskip("grpc")
from bench.containerd import NotHere, Pod, Runtime, containerd, remove_everywhere
from bench.crio import crio
from bench.hook import HookProcess

from cotenant.drivers.cgroup.knobs import CgroupKnobs
from cotenant.drivers.cgroup.layout import CgroupLayout
from cotenant.drivers.cgroup.tree import Groups
from cotenant.drivers.nri.state_file import HookState, read_state
from cotenant.model.machine.knob import Knob, KnobTarget

pytestmark = pytest.mark.slow
BEST_EFFORT = {"koordinator.sh/qosClass": "BE", "app": "batch"}
BATCH = {"kubernetes.io/batch-cpu": "1500", "kubernetes.io/batch-memory": "64Mi"}
SPEC = {
    "node.koordinator.sh/extended-resource-spec": json.dumps(
        {"containers": {"work": {"requests": BATCH, "limits": BATCH}}}
    )
}
OF_A_CPU = {"cpu_shares": 1024, "cpu_period": 100_000, "cpu_quota": 100_000, "memory_limit_in_bytes": 128 << 20}
# The weight of a container of one CPU without the hook: on cgroup v2 runtimes have one of two formulas.
UNTOUCHED = {"100", "39"}
# What a container sees when its first instructions run: its environment and, on cgroup v1, the weight of its own group.
SHOW = (
    "/busybox",
    "sh",
    "-c",
    r"own=$(/busybox sed -n 's/^[0-9]*:\(.*,\)*cpu\(,.*\)*://p' /proc/self/cgroup); "
    "/busybox env; echo SHARES=$(/busybox cat /tree$own/cpu.shares); /busybox sleep 600",
)


@pytest.fixture(params=[containerd, crio], ids=["containerd", "cri-o"])
def runtime(tmp_path: Path, group: str, groups: Groups, request: pytest.FixtureRequest) -> Iterator[Runtime]:
    try:
        with request.param(tmp_path, tmp_path / "nri.sock") as made:
            yield made
    except NotHere as error:
        pytest.skip(str(error))
    finally:
        groups.kill(group)
        remove_everywhere(group)


@pytest.fixture
def hook(runtime: Runtime) -> Iterator[Callable[..., HookProcess]]:
    """Starts hooks with the settings given, connected."""
    with ExitStack() as stack:

        def start(listen: str = "", **settings: object) -> HookProcess:
            made = HookProcess(runtime.folder, runtime.folder / "nri.sock", listen, **settings)
            stack.callback(made.end, signal.SIGKILL)
            made.start()
            return made

        yield start


def show(runtime: Runtime, layout: CgroupLayout, pod: Pod, resources: dict[str, int], **variables: str) -> str:
    """A container that prints what it sees, started."""
    tree = {"/tree": layout.by_controller["cpu"].path}
    made = runtime.container(pod, resources, SHOW, variables=variables, mounts=tree)
    runtime.start(made)
    return made


def pod_of(runtime: Runtime, group: str, number: int, qos: str, labels: dict[str, str], notes: dict[str, str]) -> Pod:
    uid = UIDS[number]
    parent = "/".join(part for part in (group, "kubepods", qos, f"pod{uid}") if part)
    return runtime.pod(uid, f"pod-{number}", parent, labels, notes)


def knobs_of(runtime: Runtime, layout: CgroupLayout, pod: Pod, container: str) -> dict[Knob, str]:
    group = runtime.group_of(pod, container)
    with CgroupKnobs(layout) as knobs:
        return {
            knob: knobs.read(KnobTarget(group, knob))
            for knob in (Knob.CPU_WEIGHT, Knob.CPU_MAX, Knob.MEMORY_MAX, Knob.CPUSET_CPUS, Knob.CPU_IDLE)
            if knobs.supported(knob) is None
        }


def weight(runtime: Runtime, layout: CgroupLayout, pod: Pod, name: str = "work") -> str:
    """The weight with which a new container of one CPU runs."""
    made = runtime.container(pod, OF_A_CPU, name=name)
    runtime.start(made)
    return knobs_of(runtime, layout, pod, made)[Knob.CPU_WEIGHT]


def environment(runtime: Runtime, pod: Pod) -> dict[str, str]:
    """What a started container printed."""

    def printed() -> dict[str, str]:
        lines = runtime.log_of(pod).splitlines()
        is_whole = any(line.startswith("SHARES=") for line in lines)
        return dict(line.split("=", 1) for line in lines if "=" in line) if is_whole else {}

    return eventually("the container printed what it sees", printed)


def test_values_before_the_first_instruction(
    runtime: Runtime, hook: Callable[..., HookProcess], layout: CgroupLayout, group: str
) -> None:
    hook(names=True, otlp_endpoint="http://traces:4318")
    on_v1 = layout.version("cpu") == 1
    plain = pod_of(runtime, group, 0, "burstable", BEST_EFFORT, {})
    work = show(runtime, layout, plain, OF_A_CPU, OTEL_EXPORTER_OTLP_ENDPOINT="http://own:4318")
    seen = environment(runtime, plain)
    assert not on_v1 or seen["SHARES"] == "2"
    held = knobs_of(runtime, layout, plain, work)
    assert (held[Knob.CPU_WEIGHT], held[Knob.CPU_MAX]) == ("1", "100000 100000")  # its native quota stays the kubelet's
    assert held[Knob.MEMORY_MAX] == str(128 << 20)
    assert held.get(Knob.CPU_IDLE, "0") == "0"
    assert seen["COTENANT_GUID"] == f"busybox-{work[:8]}"
    assert seen["OTEL_SERVICE_NAME"] == "batch"
    assert seen["OTEL_EXPORTER_OTLP_ENDPOINT"] == "http://own:4318"  # what the pod says stays
    assert f"k8s.pod.uid={UIDS[0]}" in seen["OTEL_RESOURCE_ATTRIBUTES"]

    batch = pod_of(runtime, group, 1, "besteffort", BEST_EFFORT, SPEC)
    work = show(runtime, layout, batch, {"cpu_shares": 2})
    assert not on_v1 or environment(runtime, batch)["SHARES"] == "1536"
    lent = {Knob.CPU_WEIGHT: "150", Knob.CPU_MAX: "150000 100000", Knob.MEMORY_MAX: str(64 << 20)}
    assert knobs_of(runtime, layout, batch, work).items() >= lent.items()
    # A kubelet's resize in place writes native amounts, and knows no others.
    native = {"cpu_shares": 2, "cpu_period": 100_000, "cpu_quota": -1}
    runtime.ask("UpdateContainerResources", container_id=work, linux=native)
    assert knobs_of(runtime, layout, batch, work).items() >= lent.items()

    service = pod_of(runtime, group, 2, "burstable", {"koordinator.sh/qosClass": "LS"}, {})
    assert weight(runtime, layout, service) in UNTOUCHED


@contextmanager
def agent(folder: Path, page: dict[str, object]) -> Iterator[str]:
    """Where an agent would answer `/v1/state`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(page).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            return

        def address_string(self) -> str:
            return "here"

    path = folder / "agent.sock"
    with socketserver.ThreadingUnixStreamServer(str(path), Handler) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            yield f"unix:{path}"
        finally:
            server.shutdown()
            serving.join()


def test_a_gpu_and_cpus_that_the_scheduler_chose_reach_the_container(
    runtime: Runtime, hook: Callable[..., HookProcess], layout: CgroupLayout, group: str, tmp_path: Path
) -> None:
    gpus = [
        {
            "index": index, "uuid": f"GPU-{index}", "name": "H100", "healthy": index != 1,
            "utilisation_percent": 0, "memory_total_bytes": 1, "memory_used_bytes": 0,
        }
        for index in range(2)
    ]  # fmt: skip
    last = max(os.sched_getaffinity(0))
    checkpoint = tmp_path / "cpu_manager_state"
    checkpoint.write_text('{"policyName": "none"}')

    def chosen(minor: int) -> dict[str, str]:
        allocated = {"gpu": [{"minor": minor, "resources": {"koordinator.sh/gpu-core": "100"}}]}
        return {
            "scheduling.koordinator.sh/device-allocated": json.dumps(allocated),
            "scheduling.koordinator.sh/resource-status": json.dumps({"cpuset": str(last)}),
        }

    with agent(tmp_path, {"gpus": gpus}) as listen:
        hook(listen, believed_namespaces=["shop"], cpus=True, devices=True, cpu_manager_state=str(checkpoint))
        lsr = {"koordinator.sh/qosClass": "LSR"}
        pod = pod_of(runtime, group, 0, "", lsr, chosen(0))
        work = show(runtime, layout, pod, OF_A_CPU, NVIDIA_VISIBLE_DEVICES="all")
        assert environment(runtime, pod)["NVIDIA_VISIBLE_DEVICES"] == "GPU-0"
        if layout.version("cpuset") is not None:
            assert knobs_of(runtime, layout, pod, work)[Knob.CPUSET_CPUS] == str(last)
        ill = pod_of(runtime, group, 1, "", lsr, chosen(1))
        show(runtime, layout, ill, OF_A_CPU)
        assert "NVIDIA_VISIBLE_DEVICES" not in environment(runtime, ill)


def test_a_share_of_a_gpu_starts_with_its_limits_and_the_daemons_pipe(
    runtime: Runtime,
    hook: Callable[..., HookProcess],
    layout: CgroupLayout,
    group: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mps, memory = FakeMps(tmp_path), tmp_path / "mps-memory"
    mps.start()
    memory.mkdir()
    (memory / "of-the-daemon").touch()
    monkeypatch.setenv("PATH", f"{mps.program.parent}{os.pathsep}{os.environ['PATH']}")
    gpu = {
        "index": 0, "uuid": "GPU-0", "name": "H100", "healthy": True,
        "utilisation_percent": 0, "memory_total_bytes": 80 << 30, "memory_used_bytes": 0,
    }  # fmt: skip
    half = {"koordinator.sh/gpu-core": "50", "koordinator.sh/gpu-memory-ratio": "50"}
    notes = {"scheduling.koordinator.sh/device-allocated": json.dumps({"gpu": [{"minor": 0, "resources": half}]})}
    sees = f"/busybox env; echo PIPE=$(/busybox ls {mps.pipe}); echo SHM=$(/busybox ls /dev/shm); echo SHARES=0"
    command = ("/busybox", "sh", "-c", f"{sees}; /busybox sleep 600")
    with agent(tmp_path, {"gpus": [gpu]}) as listen:
        told = {"mps_pipe": str(mps.pipe), "mps_shared_memory": str(memory)}
        process = hook(listen, believed_namespaces=["shop"], devices=True, **told)
        pod = pod_of(runtime, group, 0, "", {}, notes)
        made = runtime.container(pod, OF_A_CPU, command)
        runtime.start(made)
        seen = environment(runtime, pod)
        assert seen["CUDA_MPS_PIPE_DIRECTORY"] == str(mps.pipe)
        assert seen["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "50"
        assert seen["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == f"0={40 << 10}M"
        assert "control" in seen["PIPE"].split()
        assert seen["SHM"] == "of-the-daemon"
        own = pod_of(runtime, group, 1, "", {}, notes)
        left = runtime.container(own, OF_A_CPU, command, variables={"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "100"})
        runtime.start(left)
        assert environment(runtime, own)["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "100"
        assert "CUDA_MPS_PIPE_DIRECTORY" not in environment(runtime, own)

        def unlimited() -> tuple[str, ...]:
            state = read_state(process.state)
            return () if state is None else state.shares.unlimited

        eventually("what runs beside its limits is named", lambda: unlimited() == ("shop/pod-1/work",))
        runtime.ask("StopContainer", container_id=left)
        runtime.ask("RemoveContainer", container_id=left)
        eventually("a container that is removed is forgotten", lambda: unlimited() == ())


def test_a_hook_that_hangs_or_is_killed_keeps_no_container_from_starting(
    runtime: Runtime, hook: Callable[..., HookProcess], layout: CgroupLayout, group: str
) -> None:
    made = hook()
    assert made.process is not None
    pod = pod_of(runtime, group, 0, "burstable", BEST_EFFORT, {})
    made.process.send_signal(signal.SIGSTOP)
    # The runtime waits for as long as it is set to, goes on without the hook, and parts with it.
    assert weight(runtime, layout, pod, "late") in UNTOUCHED
    eventually("it is seen to hang", lambda: state_of(made).hangs, 30.0)
    made.process.send_signal(signal.SIGCONT)
    eventually("it is back", lambda: state_of(made).runtime and not state_of(made).hangs)
    assert weight(runtime, layout, pod, "back") == "1"
    made.end(signal.SIGKILL)
    assert read_state(made.state) is None  # as `cotenant node status` sees it
    old = runtime.container(pod, OF_A_CPU, name="alone")
    runtime.start(old)
    made.start()
    assert knobs_of(runtime, layout, pod, old)[Knob.CPU_WEIGHT] in UNTOUCHED  # what runs is left to the agent's leases
    assert weight(runtime, layout, pod, "again") == "1"


def state_of(hook: HookProcess) -> HookState:
    found = read_state(hook.state)
    assert found is not None
    return found


def test_a_runtime_that_restarts_gets_the_hook_again_and_tells_it_what_runs(
    runtime: Runtime, hook: Callable[..., HookProcess], layout: CgroupLayout, group: str
) -> None:
    pod = pod_of(runtime, group, 0, "burstable", BEST_EFFORT, {})
    assert weight(runtime, layout, pod, "before") in UNTOUCHED
    pages = runtime.folder / "pages.sock"
    made = hook(pages=f"unix:{pages}")
    becomes("it has adopted what runs", lambda: counts(pages), (1.0, 1.0))
    assert weight(runtime, layout, pod, "first") == "1"
    runtime.restart()
    eventually("it is hooked into the new one", lambda: counts(pages)[0] == 2.0 and state_of(made).runtime)
    becomes("it has adopted what runs", lambda: counts(pages), (2.0, 2.0))
    assert weight(runtime, layout, pod, "second") == "1"


def counts(pages: Path) -> tuple[float, float]:
    """Times that a runtime accepted the hook, and containers that ran when it last did."""
    connection = http.client.HTTPConnection("hook")
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(str(pages))
    with closing(connection):
        connection.request("GET", "/metrics")
        page = connection.getresponse().read().decode()
    return metric(page, "cotenant_hook_connections_total"), metric(page, "cotenant_hook_adopted_containers")


def test_leases_take_over_without_a_step(
    runtime: Runtime, hook: Callable[..., HookProcess], layout: CgroupLayout, group: str
) -> None:
    """From the container's start until the agent holds its knobs they never stand at another value."""
    hook()
    folder = runtime.folder / "agent"
    folder.mkdir(mode=0o1777)
    sources = {"kubepods": True, "runtime": runtime.socket}
    agent = AgentProcess(folder, group, "--single", groups=[], sources=sources, discovery_period_s=1)
    try:
        agent.start()
        pod = pod_of(runtime, group, 0, "besteffort", BEST_EFFORT, SPEC)
        work = runtime.container(pod, {"cpu_shares": 2})
        runtime.start(work)
        lent = {Knob.CPU_WEIGHT: "150", Knob.CPU_MAX: "150000 100000", Knob.MEMORY_MAX: str(64 << 20)}
        seen = set()

        def held() -> bool:
            now = knobs_of(runtime, layout, pod, work)
            seen.add(tuple(now[knob] for knob in lent))
            leases = agent.told("/v1/leases", "leases")
            assert isinstance(leases, list)
            targets = {(lease["target"]["group"], lease["target"]["knob"]) for lease in leases}
            return {(runtime.group_of(pod, work), knob.value) for knob in lent} <= targets

        agent.until(held)
        until = agent.ticks() + 3
        agent.until(lambda: held() and agent.ticks() >= until)
        assert seen == {tuple(lent.values())}
    finally:
        agent.stop()
