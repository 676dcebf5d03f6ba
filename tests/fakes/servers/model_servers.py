"""The `/metrics` of model servers, by server and version, from observations that a test gives.

Names, labels and edges are those of each server's public source; no text was recorded from a running one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

_VLLM_LABELS = 'engine="0",model_name="llama"'
_VLLM_FIRST = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0)
_VLLM_TOKEN = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5)
_VLLM_WHOLE = (0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0)
_SGLANG_FIRST = (0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 20.0, 40.0, 60.0, 80.0, 100.0, 200.0, 400.0)
_SGLANG_TOKEN = (0.002, 0.004, 0.006, 0.008, 0.01, 0.015, 0.02, 0.025, 0.03, 0.035, 0.04, 0.06, 0.08, 0.1, 0.2, 0.4)
_SGLANG_QUEUE = (0.0, 0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 100.0, 1000.0)
_TGI = tuple(0.0001 * 1.5**power for power in range(1, 36))
_TRITON_MS = (100.0, 500.0, 2000.0, 5000.0)


@dataclass(frozen=True)
class Served:
    """A release: its histograms by measure, each with its edges in its own unit, and its labels."""

    histograms: Mapping[str, tuple[tuple[str, ...], tuple[float, ...]]]
    labels: str = ""
    gauges: Mapping[str, float] = field(default_factory=dict)
    per_s: float = 1.0  # of its unit in a second
    started: bool = True  # whether it says when it started


RELEASES: Mapping[str, Served] = {
    "vllm-0.6": Served(
        {
            "timeToFirstToken": (("vllm:time_to_first_token_seconds",), _VLLM_FIRST),
            "interTokenLatency": (("vllm:time_per_output_token_seconds",), _VLLM_TOKEN),
            "queueTime": (("vllm:time_in_queue_requests",), _VLLM_WHOLE),
            "duration": (("vllm:e2e_request_latency_seconds",), _VLLM_WHOLE),
        },
        'model_name="llama"',
        {"vllm:num_requests_running": 3, "vllm:num_requests_waiting": 7, "vllm:generation_tokens_total": 900},
    ),
    "vllm-0.8": Served(
        {
            "timeToFirstToken": (("vllm:time_to_first_token_seconds",), _VLLM_FIRST),
            "interTokenLatency": (("vllm:time_per_output_token_seconds",), _VLLM_TOKEN),
            "queueTime": (("vllm:request_queue_time_seconds",), _VLLM_WHOLE),
            "duration": (("vllm:e2e_request_latency_seconds",), _VLLM_WHOLE),
        },
        _VLLM_LABELS,
        {"vllm:num_requests_running": 3, "vllm:num_requests_waiting": 7, "vllm:generation_tokens_total": 900},
    ),
    "vllm-0.11": Served(  # the old and the new name side by side
        {
            "timeToFirstToken": (("vllm:time_to_first_token_seconds",), _VLLM_FIRST),
            "interTokenLatency": (
                ("vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"),
                _VLLM_TOKEN,
            ),
            "timePerOutputToken": (("vllm:request_time_per_output_token_seconds",), _VLLM_TOKEN),
            "queueTime": (("vllm:request_queue_time_seconds",), _VLLM_WHOLE),
            "duration": (("vllm:e2e_request_latency_seconds",), _VLLM_WHOLE),
        },
        _VLLM_LABELS,
        {"vllm:num_requests_running": 3, "vllm:num_requests_waiting": 7, "vllm:generation_tokens_total": 900},
    ),
    "sglang-0.4": Served(
        {
            "timeToFirstToken": (("sglang:time_to_first_token_seconds",), _SGLANG_FIRST),
            "": (("sglang:time_per_output_token_seconds",), _SGLANG_TOKEN),  # observed at each chunk: counts as nothing
            "duration": (("sglang:e2e_request_latency_seconds",), _SGLANG_FIRST),
        },
        'model_name="llama"',
        {"sglang:num_running_reqs": 3, "sglang:num_queue_reqs": 7, "sglang:generation_tokens_total": 900},
    ),
    "sglang-0.5": Served(
        {
            "timeToFirstToken": (("sglang:time_to_first_token_seconds",), _SGLANG_FIRST),
            "interTokenLatency": (("sglang:inter_token_latency_seconds",), _SGLANG_TOKEN),
            "queueTime": (("sglang:queue_time_seconds",), _SGLANG_QUEUE),
            "duration": (("sglang:e2e_request_latency_seconds",), _SGLANG_FIRST),
        },
        'model_name="llama"',
        {"sglang:num_running_reqs": 3, "sglang:num_queue_reqs": 7, "sglang:generation_tokens_total": 900},
    ),
    "tgi-3": Served(
        {
            "queueTime": (("tgi_request_queue_duration",), _TGI),
            "duration": (("tgi_request_duration",), _TGI),
            "": (("tgi_request_mean_time_per_token_duration",), _TGI),  # with prefill: no time per output token
        },
        "",
        {"tgi_batch_current_size": 3, "tgi_queue_size": 7, "tgi_request_generated_tokens_sum": 900},
        started=False,
    ),
    "triton-2.5": Served(
        {"timeToFirstToken": (("nv_inference_first_response_histogram_ms",), _TRITON_MS)},
        'model="llama",version="1"',
        {"nv_inference_pending_request_count": 7},
        per_s=1000.0,
        started=False,
    ),
    "vllm-on-triton": Served(  # both on one page, Triton's own first
        {
            "": (("nv_inference_first_response_histogram_ms",), _TRITON_MS),
            "timeToFirstToken": (("vllm:time_to_first_token_seconds",), _VLLM_FIRST[:16]),
            "interTokenLatency": (("vllm:time_per_output_token_seconds",), _VLLM_TOKEN),
            "queueTime": (("vllm:request_queue_time_seconds",), _VLLM_WHOLE),
            "duration": (("vllm:e2e_request_latency_seconds",), _VLLM_WHOLE),
        },
        'model="llama",version="1"',
        {"nv_inference_pending_request_count": 9, "vllm:num_requests_running": 3, "vllm:num_requests_waiting": 7},
        started=False,
    ),
    "llama.cpp": Served(
        {},
        "",
        {"llamacpp:requests_processing": 3, "llamacpp:requests_deferred": 7, "llamacpp:tokens_predicted_total": 900},
        started=False,
    ),
}


def page(
    release: str, seconds: Mapping[str, Sequence[float]], *, started_s: float = 1.0, tokens: float | None = None
) -> str:
    """The page after these observations, by measure."""
    served = RELEASES[release]
    lines = ["# HELP python_info Python platform information.", 'python_info{version="3.12.1"} 1.0']
    if served.started:
        lines.append(f"process_start_time_seconds {started_s}")
    for name, value in served.gauges.items():
        shown = tokens if tokens is not None and ("tokens" in name) else value
        lines += [f"# TYPE {name.removesuffix('_total')} {'counter' if 'tokens' in name else 'gauge'}"]
        lines.append(f"{name}{_braced(served.labels)} {float(shown)}")
    for measure, (names, edges) in served.histograms.items():
        values = [value * served.per_s for value in seconds.get(measure, ())]
        for name in names:
            lines.append(f"# TYPE {name} histogram")
            for edge in (*edges, float("inf")):
                text = "+Inf" if edge == float("inf") else repr(edge)
                label = f'le="{text}"' + (f",{served.labels}" if served.labels else "")
                lines.append(f"{name}_bucket{{{label}}} {float(sum(value <= edge for value in values))}")
            lines.append(f"{name}_count{_braced(served.labels)} {float(len(values))}")
            lines.append(f"{name}_sum{_braced(served.labels)} {sum(values)}")
    return "\n".join(lines) + "\n"


def _braced(labels: str) -> str:
    return f"{{{labels}}}" if labels else ""
