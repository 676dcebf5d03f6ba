"""A refused value costs what the command line costs: no engine, client or compiler is loaded for it."""

from __future__ import annotations

import subprocess
import sys

import pytest

REFUSED = [
    "agent --json",
    "agent --mode x",
    "agent --config /nonexistent/agent.yaml",
    "assess --limit-qps 0",
    "assess --kubeconfig /nonexistent",
    "assess --risk-percent 50",
    "assess --watch soon",
    "assess dump /nonexistent/copy.zip",
    "assess report --html /nonexistent/a.html",
    "console --agents x",
    "console --period-s 0",
    "console --proxy-header X --proxy-from lan",
    "credit serve --bound 0",
    "credit serve --report-account x",
    "extender --profile x",
    "extender --report-account x --cluster",
    "extender --score-max 0",
    "extender --kubeconfig /nonexistent",
    "fleet call guid methods",
    "fleet call guid method celsius",
    "fleet call guid method --timeout x",
    "keeper",
    "keeper --root a --knob x",
    "manager --authorities-in x",
    "manager --otlp-traces ftp://x",
    "manager --kubeconfig /nonexistent",
    "nri --mode x",
    "profile code 1 --seconds 0",
    "profile code 1 --rate x",
    "profile perf",
    "profile perf --otlp ftp://x -- true",
    "rebalancer plan --profile x",
    "rebalancer run --config /nonexistent.yaml",
    "rebalancer run --interval-s 0",
    "rebalancer run --profile x",
    "scheduler --device-strategy x",
    "scheduler --kubeconfig /nonexistent",
    "scheduler --load-aware /nonexistent.yaml",
    "scheduler --profile x",
    "scheduler --scheduler-name My_Own",
    "traces --max-skew-s=-1",
    "webhook --agent-account x",
    "webhook --failure-policy x",
    "webhook --kubeconfig /nonexistent",
]
HEAVY = ("aiohttp", "numba", "numpy", "prometheus_client", "scipy", "sqlalchemy", "uvicorn")
SCRIPT = f"""
import sys
from cotenant.cli.main import main
for line in sys.argv[1:]:
    if main(line.split()) != 2:
        sys.exit(f"{{line}}: not refused")
    loaded = [name for name in {HEAVY} if name in sys.modules]
    if loaded:
        sys.exit(f"{{line}}: loads {{loaded}}")
"""


@pytest.mark.slow
def test_refused_values_load_nothing_heavy() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT, *REFUSED], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr.splitlines()[-1]
    assert len(done.stderr.splitlines()) == len(REFUSED)


@pytest.mark.slow
def test_a_command_imports_no_other() -> None:
    script = (
        "import sys\nfrom cotenant.cli.main import main\nmain(['manager', '--listen', 'x'])\n"
        "print(*(name for name in sys.modules if name.startswith('cotenant.cli.')))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == {
        "cotenant.cli.access",
        "cotenant.cli.cluster",
        "cotenant.cli.cluster.manager",
        "cotenant.cli.defaults",
        "cotenant.cli.further",
        "cotenant.cli.groups",
        "cotenant.cli.interrupted",
        "cotenant.cli.main",
    }


@pytest.mark.slow
@pytest.mark.parametrize("line", ["--version", "up --nope", "demo --nope", "lab compare --nope"])
def test_what_is_no_option_costs_the_command_line_only(line: str) -> None:
    script = (
        "import sys\nfrom cotenant.cli.main import main\nmain(sys.argv[1:])\n"
        "print(*(name for name in sys.modules if name.startswith('cotenant.drivers.kube.kinds.')))"
    )
    done = subprocess.run([sys.executable, "-c", script, *line.split()], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == ""
