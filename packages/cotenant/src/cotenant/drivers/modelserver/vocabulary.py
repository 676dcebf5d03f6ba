"""Which metric of which model server is which measure.

Servers rename metrics between versions, and a similar name may be another quantity. For each measure the names in the
order in which they are looked for: a release that has an old and a new name shows the same observations under both,
and one of them counts. What a server does not measure has no line, so an objective of it is told so:

- TGI's `tgi_request_mean_time_per_token_duration` divides the whole inference by the tokens, prefill included: it is no
  time per output token. TGI measures no time to first token.
- vLLM's `time_per_output_token_seconds` observed each gap: it is the inter-token latency under its name before 0.11.
- SGLang's `time_per_output_token_seconds`, until 0.4.4, observed at each chunk the mean since the first token: it is
  neither of a request nor of a gap, and counts as nothing.
- SGLang's schedulers each show every request of theirs where they do, one of each pipeline stage and, with
  `--enable-metrics-for-all-schedulers`, of each tensor-parallel rank: the first counts; those of other `dp_rank`s have
  requests of their own.
- A Triton with the vLLM backend shows the engine's own histograms, with Triton's labels, beside those of its front:
  the engine's count.
- Triton's histogram is of the first response of a decoupled model, and off unless `histogram_latencies` is on.
- llama.cpp's server has no histograms: counters and gauges only.

Source: vllm-project/vllm, vllm/v1/metrics/loggers.py and vllm/engine/metrics.py; sgl-project/sglang,
srt/metrics/collector.py; huggingface/text-generation-inference, router/src/server.rs; triton-inference-server/server,
docs/user_guide/metrics.md, and vllm_backend, src/utils/metrics.py; ggml-org/llama.cpp, tools/server; OpenTelemetry
GenAI conventions, "Model server metrics", by the names that Prometheus' exporters make of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cotenant.model.traces.model_server import ModelMeasure

_TTFT, _TPOT = ModelMeasure.TIME_TO_FIRST_TOKEN, ModelMeasure.TIME_PER_OUTPUT_TOKEN
_ITL, _QUEUE, _DURATION = ModelMeasure.INTER_TOKEN_LATENCY, ModelMeasure.QUEUE_TIME, ModelMeasure.DURATION


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """One server's names. Histograms without `_bucket`; the first name that is there counts. Of several servers whose
    names are on one page the first in `VOCABULARIES` counts.
    """

    server: str
    prefix: str  # by which it is recognised
    histograms: Mapping[ModelMeasure, tuple[str, ...]]
    model_labels: tuple[str, ...] = ()  # the first that is there
    generated_tokens: tuple[str, ...] = ()
    running: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    unit_us: int = 1_000_000  # of an edge
    rank_labels: tuple[str, ...] = ()  # of workers that serve each request together: the first of them counts it


VOCABULARIES = (
    Vocabulary(
        "vllm",
        "vllm:",
        {
            _TTFT: ("vllm:time_to_first_token_seconds",),
            _TPOT: ("vllm:request_time_per_output_token_seconds",),  # since 0.11
            _ITL: ("vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"),
            _QUEUE: ("vllm:request_queue_time_seconds", "vllm:time_in_queue_requests"),  # the latter until 0.8
            _DURATION: ("vllm:e2e_request_latency_seconds",),
        },
        ("model_name", "model"),
        ("vllm:generation_tokens_total",),
        ("vllm:num_requests_running",),
        ("vllm:num_requests_waiting",),
    ),
    Vocabulary(
        "sglang",
        "sglang:",
        {
            _TTFT: ("sglang:time_to_first_token_seconds",),
            _ITL: ("sglang:inter_token_latency_seconds",),
            _QUEUE: ("sglang:queue_time_seconds",),
            _DURATION: ("sglang:e2e_request_latency_seconds",),
        },
        ("model_name",),
        ("sglang:generation_tokens_total",),
        ("sglang:num_running_reqs",),
        ("sglang:num_queue_reqs",),
        rank_labels=("tp_rank", "pp_rank", "moe_ep_rank"),
    ),
    Vocabulary(
        "tgi",
        "tgi_",
        {_QUEUE: ("tgi_request_queue_duration",), _DURATION: ("tgi_request_duration",)},
        (),
        ("tgi_request_generated_tokens_sum",),
        ("tgi_batch_current_size",),
        ("tgi_queue_size",),
    ),
    Vocabulary(
        "triton",
        "nv_inference_",
        {_TTFT: ("nv_inference_first_response_histogram_ms",)},
        ("model",),
        (),
        (),
        ("nv_inference_pending_request_count",),
        1000,
    ),
    Vocabulary(
        "llama.cpp",
        "llamacpp:",
        {},
        (),
        ("llamacpp:tokens_predicted_total",),
        ("llamacpp:requests_processing",),
        ("llamacpp:requests_deferred",),
    ),
    Vocabulary(
        "genai",
        "gen_ai_server_",
        {
            _TTFT: ("gen_ai_server_time_to_first_token_seconds",),
            _TPOT: ("gen_ai_server_time_per_output_token_seconds",),
            _DURATION: ("gen_ai_server_request_duration_seconds",),
        },
        ("gen_ai_response_model", "gen_ai_request_model"),
    ),
)
