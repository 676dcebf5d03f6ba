"""What `cotenant profile` prints: a hundred columns, reasons once, JSON that has the object's form."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from cotenant.cli.ask import profile_showing
from cotenant.cli.main import main
from cotenant.model.cluster.workload_profile import (
    AxisReading,
    FigureSource,
    Overall,
    ProfileAxis,
    Unknown,
    WorkloadProfile,
    WorkloadRef,
    figure,
)

NO_PMU = Unknown("no node of its pods reports cycles per instruction (no PMU)")


def profile(name: str, sensitivity: float) -> WorkloadProfile:
    learned = {
        ProfileAxis.CPU: AxisReading(
            figure(0.2, 0.02, 512, FigureSource.LEARNED), figure(sensitivity, 0.09, 498, FigureSource.LEARNED)
        ),
        ProfileAxis.CACHE: AxisReading(NO_PMU, NO_PMU),
    }
    return WorkloadProfile(
        f"shop/{name}",
        WorkloadRef("Deployment", name),
        learned=learned,
        learned_overall=Overall(
            figure(sensitivity, 0.1, 2210, FigureSource.LEARNED), figure(0.3, 0.1, 5402, FigureSource.LEARNED)
        ),
        updated_at="2026-01-01T00:00:00Z",
        wrong=("spec.declared.axes: is x, expected cpu",),
    )


def test_one_profile(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert profile_showing.show([profile("cart", 0.38)], None, False) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 100
    assert "380 (290 to 470, 498 samples, learned)" in out
    assert out.count("no node of its pods reports") == 1
    assert "cannot tell, because" in out
    assert "not used: spec.declared.axes" in out


def test_two_profiles_side_by_side(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert profile_showing.show([profile("cart", 0.5), profile("batch", 0.1)], None, False) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 100
    assert "+10.0 %" in out  # 0.5 x 0.2
    assert "+2.0 %" in out


def test_all_profiles(capsys: pytest.CaptureFixture[str]) -> None:
    assert profile_showing.profiles([profile("cart", 0.38)], False) == 0
    out = capsys.readouterr().out
    assert "shop/cart" in out
    assert "2 of 16" in out
    assert profile_showing.profiles([], False) == 0
    assert "docs/guide/profiles.md" in capsys.readouterr().out


def test_json_has_every_axis(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert profile_showing.show([profile("cart", 0.38)], tmp_path / "r.svg", True) == 0
    found = json.loads(capsys.readouterr().out)
    assert [entry["name"] for entry in found["axes"]] == [axis.value for axis in ProfileAxis]
    assert found["axes"][0]["sensitivity"]["value"] == 380
    assert found["axes"][1]["sensitivity"] == {"cannotTell": NO_PMU.because}
    assert found["overall"]["sensitivity"]["samples"] == 2210
    assert (tmp_path / "r.svg").exists()
    assert profile_showing.profiles([profile("cart", 0.38)], True) == 0
    assert len(json.loads(capsys.readouterr().out)) == 1


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["cart"], "NAMESPACE/NAME"),
        (["shop/cart", "--axes", "gpu"], "--axes"),
        (["shop/cart", "--axes", "startUp"], "--axes"),
        (["shop/cart", "--levels", "0"], "--levels"),
        (["shop/cart", "--memory-mib", "0"], "--memory-mib"),
        (["shop/cart", "--objective-ms", "5"], "--objective-ms"),
        (["shop/cart", "--radar", "x.gif"], "--radar"),
        (["shop/cart", "--agent", "127.0.0.1:1"], "the agent cannot be asked"),
        (["shop/cart", "--group", "g", "--latency-file", "/nonexistent"], "--latency-file"),
    ],
)
def test_a_run_that_cannot_be_is_one_line_before_any_load(
    words: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["profile", "run", *words]) == 2
    assert named in capsys.readouterr().err


@pytest.fixture
def agent() -> Iterator[str]:
    """An agent that knows one pod; its address."""
    state = {"pods": [{"pod": "shop/cart-5b-x", "group": "cotenant-no-such-group/cart"}]}

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(state).encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_the_replica_is_asked_of_the_agent(agent: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", "run", "shop/cart", "--agent", agent]) == 2
    err = capsys.readouterr().err
    assert "cotenant-no-such-group/cart" in err or "needs root" in err or "cgroup" in err
    for other in ("shop/car", "bank/cart"):
        assert main(["profile", "run", other, "--agent", agent]) == 2
        assert "a replica on this machine; --group names one" in capsys.readouterr().err
