"""All processes of the ride service on this machine, until Ctrl-C. `--port` is the frontend's."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def commands(host: str, port: int) -> dict[str, list[str]]:
    """Name to command; the frontend listens on `port`, the others on the next six, stores first."""
    at = [f"{host}:{port + number}" for number in range(6)]
    frontend, customer, driver, route, customers, drivers = at
    parts = {
        "customers": ["store.py", "customers", customers],
        "drivers": ["store.py", "drivers", drivers],
        "route": ["route.py", route],
        "driver": ["driver.py", driver, drivers],
        "customer": ["customer.py", customer, customers],
        "frontend": ["frontend.py", frontend, customer, driver, route],
    }
    return {name: [sys.executable, str(HERE / words[0]), *words[1:]] for name, words in parts.items()}


def main() -> None:
    """The process."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=8080)
    given = parser.parse_args()
    running = [subprocess.Popen(command) for command in commands("127.0.0.1", given.port).values()]
    try:
        for entry in running:
            entry.wait()
    except KeyboardInterrupt:
        pass
    finally:
        for entry in running:
            entry.terminate()


if __name__ == "__main__":
    main()
