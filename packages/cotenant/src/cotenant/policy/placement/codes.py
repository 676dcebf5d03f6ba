"""The codes by which a profile names its order, fit and score; their compiled forms are in compiled.py and order.py.

Nothing is compiled or loaded here, so that a command line can know every profile.
"""

from __future__ import annotations

from enum import IntEnum


class Order(IntEnum):
    """Order of batch in the queue."""

    ARRIVAL = 0
    DEADLINE = 1
    SLACK = 2


class Fit(IntEnum):
    """What must fit: the pods' requests, or the predicted use of batch (services always by requests)."""

    REQUESTS = 0
    PREDICTED_USE = 1


class Score(IntEnum):
    """The score that ranks feasible nodes."""

    NONE = 0
    BEST_FIT = 1
    LEAST_ALLOCATED = 2
    BALANCE = 3
    FEWEST_PODS = 4
    DOT_PRODUCT = 5
    KUBE_DEFAULT = 6
    FOUNDING = 7
    FOUNDING_LEDGER = 8
    PARAGON_LIKE = 9
    INTERFERENCE = 10
    KUBE_1_36 = 11
