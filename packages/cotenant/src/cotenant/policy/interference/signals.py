"""Signals of victims and suspects over one interval, as selected by the settings.

Limits: None where the signal is not available on this node; then no conclusion is drawn.
"""

from __future__ import annotations

from cotenant.model.machine.node_state import PPM, PodUse
from cotenant.policy.interference.settings import SuspectSignal, VictimSignal

MIN_REQUESTS = 20  # below it a p99 is meaningless


def victim_level_ppm(signal: VictimSignal, entry: PodUse, min_requests: int = MIN_REQUESTS) -> int | None:
    """A service's signal in millionths; None where unknown."""
    use, health = entry.use, entry.health
    match signal:
        case VictimSignal.CPI:
            return None if use.cpi_milli is None else use.cpi_milli * 1000
        case VictimSignal.RUN_DELAY:
            return None if use.run_delay_ppm is None or not use.cpu_m else use.run_delay_ppm * 1000 // use.cpu_m
        case VictimSignal.STALL:
            return use.cpu_stall_ppm
        case VictimSignal.LATENCY:
            objective_us = entry.pod.objective_p99_us
            if health is None or not objective_us or not health.tells(min_requests):
                return None
            measured_us = health.p99_us if health.at_target_us is None else health.at_target_us
            return measured_us * PPM // objective_us


def activity(signal: SuspectSignal, entry: PodUse) -> int | None:
    """A suspect's activity per second, in the signal's unit; None where unknown. Blame is measured per pair
    (series.py).
    """
    use = entry.use
    match signal:
        case SuspectSignal.CPU:
            return use.cpu_m
        case SuspectSignal.IO:
            if use.io_read_bps is None and use.io_written_bps is None:
                return None
            return (use.io_read_bps or 0) + (use.io_written_bps or 0)
        case SuspectSignal.BLAME:
            return None
