from pathlib import Path

import pytest
from tests.unit.drivers.proc.test_host import NETWORK

from cotenant.drivers.proc.network import container_network, uplink_bps


def process(root: Path, pid: int, namespace: str) -> None:
    for folder in ("ns", "net"):
        (root / str(pid) / folder).mkdir(parents=True)
    (root / namespace).touch()
    (root / str(pid) / "ns/net").symlink_to(root / namespace)
    (root / str(pid) / "net/dev").write_text(NETWORK)


@pytest.mark.parametrize(("pid", "moved"), [(7, (8072, 678)), (8, None), (9, None)])
def test_a_namespace_of_its_own_counts_every_device(tmp_path: Path, pid: int, moved: tuple[int, int] | None) -> None:
    process(tmp_path, 1, "host")
    process(tmp_path, 7, "own")
    process(tmp_path, 8, "host")
    assert container_network(pid, str(tmp_path)) == moved


def test_the_uplinks_speed_is_that_of_the_devices_that_are_there_and_up(tmp_path: Path) -> None:
    assert uplink_bps(str(tmp_path)) is None
    for name, speed, is_real in (("eth0", "10000", True), ("eth1", "-1", True), ("veth1", "10000", False)):
        device = tmp_path / "class/net" / name
        device.mkdir(parents=True)
        (device / "speed").write_text(f"{speed}\n")
        if is_real:
            (device / "device").mkdir()
    (tmp_path / "class/net/eth2/device").mkdir(parents=True)  # down: its speed cannot be read
    assert uplink_bps(str(tmp_path)) == 10_000 * 125_000
    (tmp_path / "class/net/eth0/speed").write_text("-1")
    assert uplink_bps(str(tmp_path)) is None
