"""What `cotenant node doctor` says of the kubelet whose checkpoint it is given, on the machine of the tests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cotenant.cli.node.doctor import doctor
from cotenant.model.errors import Unsupported

pytestmark = pytest.mark.slow


def test_the_policies_of_the_kubelet_and_the_cpus_that_it_keeps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint = tmp_path / "cpu_manager_state"
    checkpoint.write_text(json.dumps({"policyName": "static", "defaultCpuSet": "1", "checksum": 1}))
    (tmp_path / "config.yaml").write_text(
        "reservedSystemCPUs: 0,2-3\ntopologyManagerPolicy: restricted\nmemoryManagerPolicy: None\n"
    )
    try:
        doctor(None, single=True, checkpoint=checkpoint, as_json=False)
    except Unsupported as error:
        pytest.skip(str(error))
    said = " ".join(capsys.readouterr().out.split())
    assert "CPU manager static, topology manager restricted, memory manager None, CPUs reserved by number 0,2-3" in said
