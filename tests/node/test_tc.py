"""Traffic classes of a real device: a veth pair between two of the test's own network namespaces."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from tests.fakes.node.traffic_contract import TrafficContract
from tests.fakes.waiting import patience

from cotenant.drivers.cgroup.layout import CgroupLayout
from cotenant.drivers.cgroup.tree import Groups
from cotenant.drivers.tc.knobs import TcKnobs, priority_of
from cotenant.drivers.tc.netlink import Netlink, RootQdisc
from cotenant.drivers.tc.priority import PriorityMarks
from cotenant.engine.node.policies import PolicySettings
from cotenant.model.cluster.qos import QoSClass
from cotenant.model.errors import CotenantError, Permanent
from cotenant.model.machine.knob import KnobTarget, Vanished
from cotenant.model.machine.node_pod import NodePod
from cotenant.policy.nodeqos.io.network import NetworkConfig
from cotenant.services.agent.actions.hardware_classes import Uplink

pytest.importorskip("pyroute2")
pytestmark = pytest.mark.slow
NAME = f"cotenant-test-{os.getpid()}"
DEVICE = "up0"
# Joins the namespace, then sends datagrams of 1000 bytes from an address of its own; says when it is done.
SEND = """
import ctypes, os, socket, sys
descriptor = os.open(f"/run/netns/{sys.argv[1]}", os.O_RDONLY)
if ctypes.CDLL(None).setns(descriptor, 0x40000000):
    sys.exit("setns")
sys.stdin.readline()
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind((sys.argv[2], 0))
for _ in range(20):
    s.sendto(bytes(1000), ("10.99.0.2", 9))
"""
# Marks a group and waits to be killed.
MARK = """
import sys
from cotenant.drivers.tc.priority import PriorityMarks
from cotenant.model.errors import CotenantError
marks = PriorityMarks(sys.argv[1])
try:
    marks.mark(sys.argv[2], int(sys.argv[3]))
    print("marked", flush=True)
except CotenantError as error:
    print(error, flush=True)
sys.stdin.readline()
"""


def ip(*words: str) -> None:
    done = subprocess.run(("ip", *words), capture_output=True, text=True, timeout=patience(30), check=False)
    if done.returncode:
        raise OSError(done.stderr.strip())


@pytest.fixture(scope="module")
def namespace() -> Iterator[str]:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    try:
        ip("netns", "add", NAME)
        ip("-n", NAME, "link", "add", DEVICE, "type", "veth", "peer", "name", "down0")
        ip("-n", NAME, "address", "add", "10.99.0.1/24", "dev", DEVICE)
        ip("-n", NAME, "address", "add", "10.99.0.3/24", "dev", DEVICE)
        ip("netns", "exec", NAME, "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1")
        ip("-n", NAME, "link", "set", DEVICE, "up")
        ip("-n", NAME, "link", "set", "down0", "up")
        # nobody answers behind the pair: the neighbour is told by hand
        ip("-n", NAME, "neighbour", "add", "10.99.0.2", "lladdr", "02:00:00:00:00:02", "dev", DEVICE)
    except OSError as error:
        subprocess.run(("ip", "netns", "del", NAME), capture_output=True, check=False)
        pytest.skip(f"no network namespace with a veth pair can be made here: {error}")
    try:
        yield NAME
    finally:
        ip("netns", "del", NAME)


@pytest.fixture
def device(namespace: str) -> Iterator[str]:
    yield DEVICE
    netlink = Netlink(namespace)
    root = netlink.root(DEVICE)
    if root.handle:
        netlink.remove_root(DEVICE, root.handle)


class TestClassesOfARealDevice(TrafficContract):
    @pytest.fixture
    def knobs(self, namespace: str, device: str) -> TcKnobs:
        return TcKnobs(Netlink(namespace))

    @pytest.fixture
    def stands(self, namespace: str, device: str) -> Callable[[], object]:
        return lambda: Netlink(namespace).root(device)

    def test_a_configured_root_is_not_replaced(
        self, namespace: str, knobs: TcKnobs, be: KnobTarget, device: str
    ) -> None:
        Netlink(namespace).make_root(device, 0x80010000, 0x10)
        with pytest.raises(Permanent, match="8001"):
            knobs.write(be, "10000 20000")
        assert Netlink(namespace).root(device) == RootQdisc("htb", 0x80010000)

    def test_packets_are_classified_by_their_source(
        self, namespace: str, knobs: TcKnobs, ls: KnobTarget, be: KnobTarget
    ) -> None:
        knobs.write(ls, "90000000 100000000")
        knobs.write(be, "10000000 100000000")
        knobs.steer(be, ["10.99.0.3", "fd00::3"])
        send(namespace, "10.99.0.1")
        assert (sent(knobs, ls), sent(knobs, be)) == (20, 0)
        send(namespace, "10.99.0.3")
        assert (sent(knobs, ls), sent(knobs, be)) == (20, 20)
        knobs.steer(be, [])
        send(namespace, "10.99.0.3")
        assert (sent(knobs, ls), sent(knobs, be)) == (40, 20)

    def test_packets_are_classified_by_the_sending_group(
        self,
        namespace: str,
        layout: CgroupLayout,
        groups: Groups,
        group: str,
        knobs: TcKnobs,
        ls: KnobTarget,
        be: KnobTarget,
    ) -> None:
        if layout.unified is None:
            pytest.skip("no cgroup v2 tree")
        marks = PriorityMarks(layout.unified.path)
        knobs.write(ls, "90000000 100000000")
        knobs.write(be, "10000000 100000000")
        try:
            marks.mark(group, priority_of("be"))
        except CotenantError as error:
            pytest.skip(str(error))
        try:
            send(namespace, "10.99.0.1", lambda pid: groups.move(pid, group))
            send(namespace, "10.99.0.1")
            assert (sent(knobs, ls), sent(knobs, be)) == (20, 20)
            marks.mark(group, priority_of("be"))
            assert marks.groups() == {group: priority_of("be")}
            marks.clear(group)
            send(namespace, "10.99.0.1", lambda pid: groups.move(pid, group))
            assert (sent(knobs, ls), sent(knobs, be)) == (40, 20)
        finally:
            marks.close()
        with pytest.raises(Vanished):
            marks.mark(f"{group}/gone", 1)

    def test_best_effort_traffic_is_counted_by_its_class(
        self,
        namespace: str,
        layout: CgroupLayout,
        groups: Groups,
        group: str,
        knobs: TcKnobs,
        ls: KnobTarget,
        be: KnobTarget,
    ) -> None:
        if layout.unified is None:
            pytest.skip("no cgroup v2 tree")
        uplink = Uplink(knobs, PriorityMarks(layout.unified.path))
        shaped = PolicySettings(network=NetworkConfig(device=DEVICE, link_bits=100_000_000))
        knobs.write(ls, "90000000 100000000")
        knobs.write(be, "10000000 100000000")
        program = NodePod("u1", "a", "program", group, qos=QoSClass.BE)
        pod = NodePod("u2", "a", "pod", f"{group}/pod", qos=QoSClass.BE, addresses=("10.99.0.3",))
        service = NodePod("u3", "a", "service", group.rpartition("/")[0], qos=QoSClass.LS)
        try:
            try:
                uplink.place((program, pod, service), shaped)
            except CotenantError as error:
                pytest.skip(str(error))
            before = uplink.best_effort_sent_bytes() or 0
            send(namespace, "10.99.0.1", lambda pid: groups.move(pid, group))
            send(namespace, "10.99.0.3")
            send(namespace, "10.99.0.1")
            assert ((uplink.best_effort_sent_bytes() or 0) - before) // 1042 == 40
            uplink.place((service,), shaped)
            send(namespace, "10.99.0.1", lambda pid: groups.move(pid, group))
            send(namespace, "10.99.0.3")
            assert ((uplink.best_effort_sent_bytes() or 0) - before) // 1042 == 40
        finally:
            uplink.close()

    def test_a_mark_ends_with_its_process(
        self,
        namespace: str,
        layout: CgroupLayout,
        groups: Groups,
        group: str,
        knobs: TcKnobs,
        ls: KnobTarget,
        be: KnobTarget,
    ) -> None:
        if layout.unified is None:
            pytest.skip("no cgroup v2 tree")
        knobs.write(ls, "90000000 100000000")
        knobs.write(be, "10000000 100000000")
        command = [sys.executable, "-c", MARK, layout.unified.path, group, str(priority_of("be"))]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as marker:
            try:
                assert marker.stdout is not None
                said = marker.stdout.readline().strip()
                if said != "marked":
                    pytest.skip(said)
                send(namespace, "10.99.0.1", lambda pid: groups.move(pid, group))
            finally:
                marker.kill()
        assert sent(knobs, be) == 20
        send(namespace, "10.99.0.1", lambda pid: groups.move(pid, group))
        assert (sent(knobs, ls), sent(knobs, be)) == (20, 20)


def send(namespace: str, source: str, first: Callable[[int], object] = lambda pid: None) -> None:
    """A process that joins the namespace, is moved by `first`, and then sends 20 datagrams of 1000 bytes."""
    command = [sys.executable, "-c", SEND, namespace, source]
    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True) as process:
        first(process.pid)
        process.communicate("go\n", timeout=patience(30))
        assert process.returncode == 0


def sent(knobs: TcKnobs, target: KnobTarget) -> int:
    """Datagrams of the class: 1000 bytes and 42 of headers each. What the kernel itself says to its neighbours
    meanwhile is small.
    """
    counted = knobs.sent_bytes(target)
    assert counted is not None
    assert counted % 1042 < 500
    return counted // 1042
