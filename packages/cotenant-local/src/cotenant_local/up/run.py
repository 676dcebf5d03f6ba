"""The process of `cotenant up`: starts the cluster, prints where it is, and stops it on a signal."""

from __future__ import annotations

import asyncio
import gc
import signal
from collections.abc import Awaitable, Callable
from time import perf_counter

from cotenant.services.credit.opening import FILE
from cotenant.services.heap import map_large_blocks
from cotenant.services.logs import log_to_stderr
from cotenant.services.running import raise_descriptors
from cotenant.services.scheduling.names import cluster_profile
from cotenant.services.warming import is_warm
from cotenant_local.up.cluster import LocalCluster
from cotenant_local.up.config import UpConfig
from cotenant_local.up.console import TOKEN_FILE
from cotenant_local.up.warming import warm_apart

Say = Callable[[str], None]
PROGRESS_S = 10.0
GARBAGE = (50_000, 20, 50)  # a full collection looks at every object of a cluster: with 50,000 pods, half of all time


def run(config: UpConfig, say: Say) -> int:
    """Run until SIGTERM or Ctrl-C. Errors during the start are raised; `say` is called with lines for a person."""
    import uvloop

    log_to_stderr("warning", config.log_format)
    map_large_blocks()
    gc.set_threshold(*GARBAGE)
    raise_descriptors()
    return uvloop.run(_run(config, say))


async def _run(config: UpConfig, say: Say) -> int:
    began = perf_counter()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    profile = cluster_profile("--profile", config.profile).name  # of a profile file, the built-in one's
    if not config.is_bare and not is_warm(profile):
        say("compiling, once for this version: about half a minute")
        compiling, stopping = asyncio.create_task(warm_apart(profile)), asyncio.create_task(stop.wait())
        await asyncio.wait({compiling, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not compiling.done():
            compiling.cancel()
            return 0
        compiling.result()
        began = perf_counter()
    async with LocalCluster(config) as cluster:
        starting = asyncio.create_task(cluster.ready())
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            starting.cancel()
            return 0
        starting.result()
        for line in _welcome(cluster, perf_counter() - began):
            say(line)
        await cluster.submit()
        watching = [asyncio.create_task(_report_troubles(cluster.troubles, say))]
        if config.workload:
            watching.append(asyncio.create_task(_report_progress(cluster, say)))
        await stopping
        for task in watching:
            task.cancel()
        say("stopping")
    return 0


async def _report_troubles(
    troubles: Callable[[], Awaitable[dict[str, str]]],
    say: Say,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """A line when a part is no longer ready or does not lead, and when it is as it should be again."""
    known: dict[str, str] = {}
    while True:
        await sleep(PROGRESS_S)
        found = await troubles()
        for name in sorted(found.keys() - known.keys()):
            say(f"{name}: {found[name]}")
        for name in sorted(known.keys() - found.keys()):
            say(f"{name}: as it should be again")
        known = found


async def _report_progress(cluster: LocalCluster, say: Say) -> None:
    """A line on the workload's progress, periodically."""
    while True:
        await asyncio.sleep(PROGRESS_S)
        seen = cluster.nodes.snapshot()
        progress = cluster.submitter.progress if cluster.submitter is not None else None
        jobs = f"{progress.completed_stages} of {progress.stages} stages done" if progress is not None else ""
        say(
            f"day {seen.day:.2f}: {seen.pods} pods on {seen.nodes_up} of {seen.nodes} nodes, "
            f"CPU {seen.cpu_requested:.0%} requested {seen.cpu_used:.0%} used, "
            f"objective missed by {seen.violation:.1%} of replicas, {jobs}"
        )
        for line in cluster.news():
            say(f"  {line}")


def _welcome(cluster: LocalCluster, took_s: float) -> list[str]:
    config, endpoints = cluster.config, cluster.endpoints
    parts = ["API server"]
    if not config.is_bare:
        parts += ["controllers", f"scheduler ({config.profile})", "extender"]
    if config.has_manager:
        parts.append("manager")
    if config.has_traces:
        parts.append("traces")
    if config.has_rebalancer:
        parts.append("rebalancer")
    if config.has_credit:
        parts.append("credit")
    if config.nodes:
        parts.append(f"{config.nodes} simulated nodes")
    lines = [
        f"{', '.join(parts)}: ready in {took_s:.1f} s at {endpoints.url}",
        f"  export KUBECONFIG={endpoints.kubeconfig}",
        "  kubectl get nodes",
    ]
    if endpoints.extender_port:
        lines.append(f"  extender: http://127.0.0.1:{endpoints.extender_port}")
    if endpoints.otlp_http_port:
        lines.append(
            f"  OTLP: http://127.0.0.1:{endpoints.otlp_http_port} (HTTP), 127.0.0.1:{endpoints.otlp_grpc_port} (gRPC)"
        )
    if config.shows_loop:
        lines.append("  in a minute a job hurts a service: cotenant explain service shop/checkout")
    if endpoints.scheduler_port:
        lines.append(
            f"  metrics: http://127.0.0.1:{endpoints.scheduler_port}/metrics  logs: {config.directory / 'logs'}"
        )
    if endpoints.credit_port:
        store = config.directory / FILE
        lines.append(
            f"  credit: http://127.0.0.1:{endpoints.credit_port}/credit/v1/tenants  cotenant credit list --store "
            f"{store}"
        )
    if endpoints.console:
        lines.append(
            f"  console: {endpoints.console}  (the link works once; later: the token in "
            f"{config.directory / TOKEN_FILE})"
        )
    lines.append(
        "nothing is kept after the end" if config.is_ephemeral else f"everything is kept in {config.directory}"
    )
    lines.append("Ctrl-C ends it")
    return lines
