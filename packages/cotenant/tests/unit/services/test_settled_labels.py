"""Every process that reads pods believes class and quota as the scheduler stated them, not as they were relabelled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.fakes.seal_keys import keys, write_pair

from cotenant.drivers.http.address import Address
from cotenant.drivers.journal.journal import Journal
from cotenant.drivers.kube.cache.cache import Changed
from cotenant.drivers.kube.client.access import Access
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.credentials import Credential, FixedCredential
from cotenant.drivers.kube.kinds.pod.schema import PODS, PodObject
from cotenant.drivers.seals.seals import CERTIFICATE_FILE, NO_SEALS, Seals
from cotenant.model.cluster.labels import PRIORITY_CLASS, QOS_CLASS
from cotenant.model.cluster.seal import SETTLED
from cotenant.model.groups.quota import NAME
from cotenant.services.console.console_arguments import ConsoleArguments
from cotenant.services.console.console_process import ConsoleOptions, ConsoleProcess
from cotenant.services.console.main import options_of as console_options
from cotenant.services.credit.credit_process import CreditOptions, CreditProcess
from cotenant.services.extender.extender_arguments import ExtenderSettings
from cotenant.services.extender.extender_process import ExtenderComponents
from cotenant.services.extender.mirror import Mirror
from cotenant.services.extender.watches import MirrorWatches
from cotenant.services.kube_process.leadership import Alone
from cotenant.services.kube_process.watches import Watches
from cotenant.services.manager.manager_process import ManagerOptions, ManagerProcess
from cotenant.services.rebalancer.main import options_of
from cotenant.services.rebalancer.rebalancer_arguments import RunArguments
from cotenant.services.rebalancer.rebalancer_process import RebalancerProcess

ACCESS = Access("http://127.0.0.1:1", FixedCredential(Credential("")))
LOOPBACK = Address("127.0.0.1", 0)
AT_BIND = {QOS_CLASS: "BE", PRIORITY_CLASS: "koord-batch", NAME: "own"}
LATER = {QOS_CLASS: "LS", PRIORITY_CLASS: "koord-prod", NAME: "others"}


def pod(labels: dict[str, str]) -> PodObject:
    """Of node n1; what the scheduler stated of it is `AT_BIND`."""
    requests = {"kubernetes.io/batch-cpu": "1000", "memory": "64Mi"}
    written: dict[str, Any] = {
        "metadata": {
            "name": "p",
            "namespace": "shop",
            "uid": "u",
            "creationTimestamp": "2026-03-01T00:00:00Z",
            "labels": labels,
            "annotations": {SETTLED: keys()[0].statement("u", "n1", AT_BIND)},
        },
        "spec": {"nodeName": "n1", "schedulerName": "cotenant", "containers": [{"resources": {"requests": requests}}]},
        "status": {"phase": "Running"},
    }
    return msgspec.convert(written, PodObject, strict=False)


def deliver(watches: Watches, obj: PodObject) -> None:
    (reflector,) = [reflector for reflector in watches._reflectors if reflector.kind is PODS]
    reflector._deliver([Changed("Pod", "shop/p", None, obj)])


def of_manager(seals: Seals, obj: PodObject) -> object:
    process = ManagerProcess(ACCESS, ManagerOptions(listen=LOOPBACK, seals=seals), "one", lambda client: Alone())
    deliver(process.kube.watches, obj)
    return process.manager._nodes["n1"].pods


def of_credit(seals: Seals, obj: PodObject) -> object:
    options = CreditOptions(LOOPBACK, seals=seals)
    process = CreditProcess(ACCESS, options, Journal("sqlite://"), "one", lambda client: Alone())
    deliver(process.kube.watches, obj)
    return process.facts._pods


def of_rebalancer(seals: Seals, obj: PodObject) -> object:
    options = replace(options_of(RunArguments(), LOOPBACK), seals=seals)
    process = RebalancerProcess(ACCESS, options, "one", lambda client: Alone())
    deliver(process.kube.watches, obj)
    found = process.reading.cluster.find("shop/p")
    assert found is not None
    return found.seen.pod


def of_console(seals: Seals, obj: PodObject) -> object:
    process = ConsoleProcess(ACCESS, ConsoleOptions(listen=LOOPBACK, seals=seals), now=lambda: 0.0)
    deliver(process.watches, obj)
    return process.fleet.pods["shop/p"]


def of_extender(seals: Seals, obj: PodObject) -> object:
    mirror = Mirror()
    watches = MirrorWatches(Client(ACCESS, qps=1.0, burst=1, in_flight=1), mirror, seals=seals)
    watches.take_pods([Changed("Pod", "shop/p", None, obj)])
    return mirror._residents["u"].shape


PROCESSES = [of_manager, of_credit, of_rebalancer, of_console, of_extender]


@pytest.mark.parametrize("read", PROCESSES)
def test_a_pod_is_what_it_was_bound_as(read: Callable[[Seals, PodObject], object]) -> None:
    seals = keys()[1]
    assert read(seals, pod(LATER)) == read(seals, pod(AT_BIND))
    assert read(NO_SEALS, pod(LATER)) != read(NO_SEALS, pod(AT_BIND))


def test_the_option_names_the_certificate(tmp_path: Path) -> None:
    write_pair(tmp_path)
    file = tmp_path / CERTIFICATE_FILE
    assert options_of(RunArguments(seal_certificate=file), LOOPBACK).seals.checks
    assert console_options(ConsoleArguments(seal_certificate=file)).seals.checks
    assert not console_options(ConsoleArguments(seal_certificate=tmp_path / "none")).seals.checks
    extender = ExtenderComponents(
        ExtenderSettings(seal_certificate=file), client=Client(ACCESS, qps=1.0, burst=1, in_flight=1)
    )
    assert extender.watches is not None
    assert extender.watches._reader._seals.checks
