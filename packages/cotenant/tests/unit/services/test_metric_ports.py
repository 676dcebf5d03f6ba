"""The names that a scrape of each process finds on its port are those that the sources declare.

Pages, dashboards and alerts are compared with the declarations (tests/unit/test_metric_names.py,
tests/unit/deploy/test_monitoring.py); this closes the chain.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace

import aiohttp
import pytest
from tests.fakes.servers.http_servers import SERVERS, TOKEN, serving
from tests.unit.test_metric_names import exported

from cotenant.drivers.http.address import Address
from cotenant.drivers.http.limits import DEFAULTS
from cotenant.drivers.journal.journal import Journal
from cotenant.drivers.kube.client.access import Access
from cotenant.drivers.kube.client.credentials import Credential, FixedCredential
from cotenant.services.credit.credit_process import CreditOptions, CreditProcess
from cotenant.services.kube_process.leadership import Alone
from cotenant.services.manager.manager_process import ManagerOptions, ManagerProcess
from cotenant.services.rebalancer.main import options_of
from cotenant.services.rebalancer.rebalancer_arguments import RunArguments
from cotenant.services.rebalancer.rebalancer_process import RebalancerProcess

pytestmark = pytest.mark.slow

LOOPBACK = Address("127.0.0.1", 0)
PREFIXES = {
    "apiserver": ("apiserver_",),
    "scheduler": ("scheduler_", "cotenant_scheduler_"),
    "extender": ("cotenant_extender_",),
    # most names need a machine, pods or a policy: packages/cotenant/tests/unit/services/agent/test_metrics.py has them
    "agent": (),
    "webhook": ("cotenant_webhook_",),
    "traces": ("cotenant_traces_", "cotenant_objective_", "cotenant_service_", "cotenant_signal"),
    "console": ("cotenant_console_",),
    "manager": ("cotenant_manager_",),
    "credit": ("cotenant_credit_",),
    "rebalancer": ("cotenant_rebalancer_",),
}
FOREIGN = (
    "process_",
    "python_",
    "cotenant_http_",
    "pyrra_",
    "slo:",
    "sloth_",
    "traces_service_graph_",
)  # of others' pages too
WITH_AN_OPTION = {
    "apiserver": {"apiserver_admission_webhook_fail_open_count"},  # `cotenant up`
    "scheduler": {  # --load-aware, --otlp-traces, --shards, and a profile that predicts use
        *(
            f"cotenant_scheduler_shard_{name}"
            for name in (
                *("slot", "epoch", "nodes", "borrowed", "lent", "others"),
                *("rings", "loans", "fenced_pods", "table_conflicts"),
                *("quotas_lent", "quotas_borrowed", "quota_grants"),
            )
        ),
        "cotenant_scheduler_load_oddities_total",
        "cotenant_scheduler_node_loads",
        "cotenant_scheduler_predicted_use_nodes",
        "cotenant_scheduler_predicted_use_oddities_total",
        "cotenant_scheduler_spans_total",
    },
    "traces": {"cotenant_traces_forwarded_total", "cotenant_traces_forwarding_bytes"},  # --forward
    "manager": {"cotenant_manager_spans_total"},
    "rebalancer": {"cotenant_rebalancer_spans_total"},
}
FAMILY = re.compile(r"^# TYPE (\S+) (\w+)$", re.MULTILINE)
SUFFIX = {"counter": "", "gauge": "", "histogram": "_bucket", "summary": "_sum"}


def names(page: str) -> set[str]:
    """The names of samples that the families of a page have; those without a sample yet too."""
    return {name + SUFFIX[kind] for name, kind in FAMILY.findall(page)}


async def page(name: str) -> str:
    access = Access("http://127.0.0.1:1", FixedCredential(Credential("")))
    if name in SERVERS:
        async with serving(name, replace(DEFAULTS, body_bytes=1 << 20)) as address:
            return await scraped(f"http://{address}", SERVERS[name])
    process: ManagerProcess | RebalancerProcess | CreditProcess
    if name == "credit":
        journal = Journal("sqlite://")
        process = CreditProcess(access, CreditOptions(LOOPBACK), journal, "one", lambda client: Alone())
    elif name == "manager":
        process = ManagerProcess(access, ManagerOptions(listen=LOOPBACK), "one", lambda client: Alone())
    else:
        process = RebalancerProcess(access, options_of(RunArguments(), LOOPBACK), "one", lambda client: Alone())
    await process.server.start()
    try:
        return await scraped(process.server.url, None)
    finally:
        await process.server.stop()
        await process.client.close()


async def scraped(url: str, facts: object) -> str:
    headers = {"Authorization": f"Bearer {TOKEN}"} if facts is not None else {}
    async with aiohttp.ClientSession(headers=headers) as session, session.get(f"{url}/metrics") as answer:
        assert answer.status == 200
        return await answer.text()


@pytest.mark.parametrize("name", PREFIXES)
def test_a_scrape_finds_the_names_that_the_sources_declare(name: str) -> None:
    found = {entry for entry in names(asyncio.run(page(name))) if not entry.startswith(FOREIGN)}
    assert sorted(found - exported()) == []
    assert not [entry for entry in found if entry.endswith("_created")]
    declared = {entry for entry in exported() if PREFIXES[name] and entry.startswith(PREFIXES[name])}
    histograms = {entry.removesuffix("_bucket") for entry in declared if entry.endswith("_bucket")}
    parts = {f"{histogram}{end}" for histogram in histograms for end in ("", "_count", "_sum")}
    assert declared - found - parts == WITH_AN_OPTION.get(name, set())
