"""The screenshots in the README and the guides: `make screenshots` takes them of the running product.

A picture of a page that has changed since misleads. One command starts a cluster with a workload, opens its console
and its assessment in Chromium and writes the pictures; the lab's report is that of the last `make compare`, and its
picture is left as it is where there is none.
Limits: needs Playwright, Chromium and kubectl; a workload in real time, so two pictures are similar, not equal.
"""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from time import monotonic, sleep
from typing import Any

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
REPORT = ROOT / "runs" / "compare" / "report.html"  # of the last `make compare`
WAITING = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "too-large", "namespace": "default"},
    "spec": {"containers": [{"name": "c", "image": "none", "resources": {"requests": {"cpu": "40", "memory": "8Gi"}}}]},
}
NODES, SETTLE_S, READY_S = 120, 150.0, 240.0


def main() -> None:
    """Take the pictures."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("chromium is not installed")
    with tempfile.TemporaryDirectory(prefix="cotenant-picture-") as folder:
        words = ("up", "--dir", folder, "--ephemeral", "--nodes", str(NODES), "--workload", "founding", "--manager")
        arguments = (sys.executable, "-m", "cotenant", *words, "--lend", "peak", "--speed", "400")
        with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as cluster:
            try:
                link = _link(cluster)
                sleep(SETTLE_S)
                with sync_playwright() as playwright:
                    browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
                    page = browser.new_page(
                        viewport={"width": 1280, "height": 800}, color_scheme="light", locale="en-US"
                    )
                    page.goto(link)
                    page.goto(f"{link.partition('/login')[0]}/#/machines?group=zone&colour=kind")
                    page.wait_for_selector(".curves", timeout=60_000)
                    _take(page, DOCS / "console.webp")
                    command = ("kubectl", "--kubeconfig", f"{folder}/kubeconfig", "apply", "-f", "-")
                    subprocess.run(command, input=json.dumps(WAITING), text=True, check=True, stdout=sys.stderr)
                    page.goto(f"{link.partition('/login')[0]}/#/pods?pod=default/too-large")
                    page.wait_for_selector("[data-headline].waits, .helps, .bars", timeout=60_000)
                    _take(page, DOCS / "console-pod.webp")
                    page.goto(_assessment(Path(folder)).as_uri())
                    page.wait_for_selector("[data-figure] .interval-row", timeout=60_000)
                    _take(page, DOCS / "assess.webp")
                    if REPORT.exists():
                        page.goto(REPORT.as_uri())
                        page.wait_for_selector("[data-figure] svg", timeout=60_000)
                        page.evaluate("document.querySelector('#load, #shape').scrollIntoView()")
                        _take(page, DOCS / "report.webp")
                    else:
                        print(
                            f"{REPORT} is not there (make compare): docs/report.webp is left as it is", file=sys.stderr
                        )
                    browser.close()
            finally:
                cluster.terminate()


def _assessment(folder: Path) -> Path:
    """The page of `cotenant assess` on the cluster."""
    target = folder / "assess.html"
    words = ("assess", "--kubeconfig", f"{folder}/kubeconfig", "--html", str(target), "--quiet")
    subprocess.run((sys.executable, "-m", "cotenant", *words), check=True, stdout=sys.stderr)
    return target


def _take(page: Any, target: Path) -> None:
    """Write what a page shows as WebP, which Playwright itself does not."""
    session = page.context.new_cdp_session(page)
    shot = session.send("Page.captureScreenshot", {"format": "webp", "quality": 62})
    target.write_bytes(base64.b64decode(shot["data"]))


def _link(cluster: subprocess.Popen[str]) -> str:
    until = monotonic() + READY_S
    assert cluster.stdout is not None
    for line in cluster.stdout:
        if "console: " in line:
            return line.partition("console: ")[2].split()[0]
        if monotonic() > until:
            break
    raise SystemExit("the cluster printed no link")


if __name__ == "__main__":
    main()
