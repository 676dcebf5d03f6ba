"""The parameters of the world of GPUs, and what a seed draws of them.

Card and model are one published pair. What is not published is drawn from the seed over a stated range, so that an
interval over seeds covers it. Marks: [data sheet], [published] with its source, [ours] an assumption.
Limits: one model on cards of one kind; a day is squeezed into `day_s`; arrivals and lengths follow published shapes,
or a recording whose rate is replaced by the day's.

Sources: NVIDIA A100 80 GB data sheet; Llama 3 8B's published shape; medians of the Azure conversation and coding traces
as published with Splitwise (Patel et al., ISCA'24); Gamma gaps between requests, as BurstGPT (Wang et al., 2024) found
them; openb's shares of pods that take a part of a GPU or a whole one (Weng et al., ATC'23).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from cotenant_lab.gpuworld.request_trace import RequestTrace
from cotenant_lab.world.config import MIXED, WorldConfig
from cotenant_lab.world.laws import drawn as drawn_law
from cotenant_lab.world.state import Law, law

SECOND_US = 1_000_000
WHOLE_MILLI = 1000  # streaming multiprocessors of a card
_STREAM = 31


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """What pressure of 1 on one part of a card adds to the time of a phase; drawn by the seed [ours]."""

    prefill_sm: float = 0.9
    prefill_bandwidth: float = 0.25
    decode_sm: float = 0.25
    decode_bandwidth: float = 0.9
    pcie: float = 0.08
    offline_bandwidth: float = 0.6


_RANGES = {
    "prefill_sm": (0.6, 1.2),  # compute-bound: two kernels that want all of a card take twice as long, about
    "prefill_bandwidth": (0.1, 0.4),
    "decode_sm": (0.1, 0.4),
    "decode_bandwidth": (0.6, 1.2),  # bandwidth-bound
    "pcie": (0.02, 0.15),
    "offline_bandwidth": (0.3, 0.9),
}


@dataclass(frozen=True, slots=True)
class GpuWorldConfig:
    """One run. Times in seconds unless the name says otherwise."""

    cards: int = 16  # of one machine, as a DGX-2 has
    cards_per_root: int = 2  # behind one PCIe root [ours]
    day_s: int = 7200  # a day, squeezed [ours]
    # the model server: Llama 3 8B in 16 bits, 16 GB, on an A100 with 312 TFLOPS and 2,039 GB/s [data sheet]
    server_memory_pct: int = 50  # weights and a pool of 24 GB for the KV cache, taken when it starts
    kv_tokens: int = 183_000  # 24 GB of 131,072 bytes: 2 x 32 layers x 8 heads x 128 x 2 bytes
    max_batch: int = 64
    max_prefill_tokens: int = 8192  # of one prefill, several prompts together
    prefill_us_per_token: float = 102.6  # 2 x 8e9 operations at half of the 312 TFLOPS [ours: the half]
    weights_us: float = 11_200.0  # 16 GB at 70 % of the bandwidth [ours: 70 %], once a step of decoding
    kv_us_per_token: float = 0.0918  # 131,072 bytes of a token's cache at the same bandwidth
    decode_sm: float = 0.3  # multiprocessors that a step of decoding keeps busy [ours]
    decode_bandwidth: float = 0.9
    prefill_bandwidth: float = 0.4
    start_s: float = 20.0  # of a replica, without its weights [ours]
    weights_s: float = 0.8  # 16 GB over PCIe at 20 GB/s, longer under pressure of its root
    # requests
    peak_replicas: int = 10
    replica_rps: float = 2.2  # what a replica is sized for [ours]
    trough: float = 0.3  # of the peak rate, at night [ours: openb and Azure both show swings of this size]
    gap_cv: tuple[float, float] = (1.0, 2.0)  # of Gamma gaps
    noise_sd: float = 0.08  # of the rate by the minute, AR(1) at 0.9 [ours]
    conversation: tuple[int, int] = (1020, 129)  # median tokens of prompt and answer [published]
    coding: tuple[int, int] = (1500, 13)  # [published]
    coding_share: tuple[float, float] = (0.0, 0.4)  # [ours]
    length_sd: float = 0.8  # of both, log-normal [ours]
    max_prompt: int = 4096
    max_output: int = 1024
    requests: RequestTrace | None = None  # gaps and lengths of a recording, in place of those drawn
    # objectives, of each request
    first_token_s: tuple[float, float] = (1.0, 1.6)  # drawn [ours]
    per_token_s: tuple[float, float] = (0.10, 0.15)
    # offline jobs
    backlog: int = 24  # that wait at the begin
    job_every_s: float = 30.0  # then, Poisson: more than the cards can do
    job_median_s: float = 600.0  # alone on a card, log-normal with sd 0.7, in a squeezed day [ours]
    whole_share: float = 0.56  # of jobs that fill a card's memory: 48.0 of openb's 48.0 + 37.8 % [published]
    checkpoint_s: float = 300.0  # of a job's own work; what is not in one is lost by an eviction [ours]
    restart_s: float = 20.0
    leave_s: float = 15.0  # in which an evicted job writes a checkpoint, where it is given time to [ours]
    need_error_sd: float = 0.25  # log-normal, of what earlier runs of a job's workload say of its needs [ours]
    server_sm_pct: int = 50  # of a card, what a replica takes in the mean of its busy hours
    server_bandwidth_pct: int = 50
    budget: float = 0.01  # share of requests that may miss their objective
    sensitivity: Sensitivity = Sensitivity()
    interference: float = 1.0


@dataclass(frozen=True, slots=True)
class SeedDraw:
    """What one seed draws: the law of contention and its parameters, and the objectives."""

    law: Law
    sensitivity: Sensitivity
    gap_cv: float
    coding_share: float
    first_token_us: int
    per_token_us: int


def draw(config: GpuWorldConfig, seed: int) -> SeedDraw:
    """The draw of a seed. The law's form and parameters are the mixed law's of nodes of CPUs, without its scale, which
    was calibrated there: a pressure of 1 costs the drawn sensitivity under every form.
    """
    rng = np.random.default_rng([seed, _STREAM])
    sensitivity = replace(config.sensitivity, **{name: float(rng.uniform(*span)) for name, span in _RANGES.items()})
    form = law(drawn_law(WorldConfig(), MIXED, seed))._replace(pressure_scale=1.0)
    return SeedDraw(
        form,
        sensitivity,
        float(rng.uniform(*config.gap_cv)),
        float(rng.uniform(*config.coding_share)),
        round(float(rng.uniform(*config.first_token_s)) * SECOND_US),
        round(float(rng.uniform(*config.per_token_s)) * SECOND_US),
    )
