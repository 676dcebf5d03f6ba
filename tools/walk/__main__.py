"""Print a walk.

python -m tools.walk pod            the counts; of a measurement and of a request likewise
python -m tools.walk pod --path     and every file on the way, in order
"""

from __future__ import annotations

import argparse
from collections import Counter

from tools.walk import measurement, pod, request
from tools.walk.recorder import room_of

WALKS = {"pod": pod.walk, "measurement": measurement.walk, "request": request.walk}


def main() -> None:
    """Parse, walk, print."""
    parser = argparse.ArgumentParser(prog="python -m tools.walk", description=__doc__)
    parser.add_argument("way", choices=sorted(WALKS))
    parser.add_argument("--path", action="store_true", help="print every file on the way, in order")
    arguments = parser.parse_args()
    walk = WALKS[arguments.way]()
    if arguments.path:
        for file, calls in walk.path():
            print(f"{calls:5d} {file}")
    for room, files in sorted(Counter(map(room_of, walk.files)).items()):
        print(f"{files:4d} {room}")
    print(f"{len(walk.files)} files, {len(walk.rooms)} rooms, {walk.changes} changes of room, {len(walk.steps)} calls")


if __name__ == "__main__":
    main()
