"""After the rehearsal nothing compiles: what does stops the event loop of a scheduler that leads."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[5]


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["cotenant-requests", "cotenant", "kube-default", "drf"])
def test_random_clusters_need_no_kernel_that_was_not_rehearsed(policy: str) -> None:
    """In a process of its own: kernels stay in the process that loaded them."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.fakes.cluster.compiled_kernels", policy], cwd=ROOT, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr[-2000:]
