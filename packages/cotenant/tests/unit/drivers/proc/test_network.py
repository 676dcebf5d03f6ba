from pathlib import Path

import pytest
from tests.unit.drivers.proc.test_host import NETWORK

from cotenant.drivers.proc.network import container_network


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
