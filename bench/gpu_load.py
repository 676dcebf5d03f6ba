"""A CUDA process for `bench.gpu`, through the driver's library only: a service or offline work on one card.

    python -m bench.gpu_load service --seconds 20 --gap-ms 10
    python -m bench.gpu_load offline --seconds 20

Both launch one kernel of multiplications, compiled by the driver from its text below. The service launches a small one
after each gap and measures until it has ended, as a decoding step is small and waited for; the offline work launches
large ones back to back, and counts. One line of JSON at the end; a line before says that it has begun.
Limits: no memory bandwidth; the service's load is closed, so it is not later than one request.

Source: CUDA Driver API; Parallel Thread Execution ISA.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import time

PTX = b"""
.version 6.0
.target sm_50
.address_size 64
.visible .entry burn(.param .u64 out, .param .u32 rounds)
{
    .reg .pred %p<2>;
    .reg .f32 %f<3>;
    .reg .b32 %r<3>;
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [out];
    ld.param.u32 %r1, [rounds];
    mov.u32 %r2, %tid.x;
    cvt.rn.f32.u32 %f1, %r2;
    mov.f32 %f2, 0f3F7FFFFF;
again:
    fma.rn.f32 %f1, %f1, %f2, %f2;
    sub.u32 %r1, %r1, 1;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra again;
    cvta.to.global.u64 %rd2, %rd1;
    st.global.f32 [%rd2], %f1;
    ret;
}
"""
SERVICE = (8, 128, 20_000)  # blocks, threads, rounds
OFFLINE = (4096, 256, 20_000)
_LIBRARY = "libcuda.so.1"


class NoCuda(Exception):
    """Why there is no CUDA here."""


class Card:
    """The first card that CUDA shows this process."""

    def __init__(self) -> None:
        try:
            self._cuda = ctypes.CDLL(_LIBRARY)
        except OSError as error:
            raise NoCuda(f"no {_LIBRARY}: {error}") from error
        device, context, module = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
        self._kernel, self._out = ctypes.c_void_p(), ctypes.c_uint64()
        self._must("cuInit", 0)
        self._must("cuDeviceGet", ctypes.byref(device), 0)
        self._must("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self._must("cuCtxSetCurrent", context)
        self._must("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(PTX))
        self._must("cuModuleGetFunction", ctypes.byref(self._kernel), module, ctypes.c_char_p(b"burn"))
        self._must("cuMemAlloc_v2", ctypes.byref(self._out), ctypes.c_size_t(4))

    def run(self, blocks: int, threads: int, rounds: int) -> None:
        """One launch, until it has ended."""
        count = ctypes.c_uint32(rounds)
        given = (ctypes.c_void_p * 2)(
            ctypes.cast(ctypes.byref(self._out), ctypes.c_void_p), ctypes.cast(ctypes.byref(count), ctypes.c_void_p)
        )
        self._must("cuLaunchKernel", self._kernel, blocks, 1, 1, threads, 1, 1, 0, None, given, None)
        self._must("cuCtxSynchronize")

    def _must(self, name: str, *given: object) -> None:
        status = getattr(self._cuda, name)(*given)
        if status != 0:
            raise NoCuda(f"{name}: CUDA error {status}")


def serve(card: Card, seconds: float, gap_ms: float) -> dict[str, object]:
    """Latencies in microseconds."""
    latencies, end_s = [], time.monotonic() + seconds
    while (begun_s := time.monotonic()) < end_s:
        card.run(*SERVICE)
        latencies.append(round((time.monotonic() - begun_s) * 1e6))
        time.sleep(gap_ms / 1000)
    return {"latencies_us": latencies}


def work(card: Card, seconds: float) -> dict[str, object]:
    """Launches that ended."""
    launches, begun_s = 0, time.monotonic()
    while time.monotonic() < begun_s + seconds:
        card.run(*OFFLINE)
        launches += 1
    return {"launches": launches, "seconds": time.monotonic() - begun_s}


def main() -> None:
    """The process's entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=("service", "offline"))
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--gap-ms", type=float, default=10.0)
    given = parser.parse_args()
    card = Card()
    card.run(*SERVICE)
    print("begun", flush=True)
    done = serve(card, given.seconds, given.gap_ms) if given.kind == "service" else work(card, given.seconds)
    print(json.dumps(done), flush=True)


if __name__ == "__main__":
    main()
