"""The images that nodes have, and the score of each row for the images of a pod.

Every pod has images and every node reports dozens, while their score rarely distinguishes nodes: small images count
nothing, and those of every node the same. Sizes by image and node name; a pod's scores are computed once for a list of
images and kept until a node's images or the set of nodes change, and count as no preference where they are equal on all
rows.
Limits: a node's images take part when its Node object is next seen. Formula: policy/placement/scores/images.py.
"""

from __future__ import annotations

import numpy as np

from cotenant.engine.encoding.encoder import Encoder
from cotenant.model.arrays import Float
from cotenant.policy.placement.scores import images

_MAX_KEPT = 4096
Images = tuple[tuple[str, int], ...]  # names and bytes


class NodeImages:
    """Images by node. Rows are the encoder's."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._of_node: dict[str, Images] = {}
        self.sizes: dict[str, dict[str, int]] = {}  # image -> node's name -> bytes; read only elsewhere
        self._scores: dict[tuple[str, ...], Float | None] = {}
        self._revision = -1  # of the nodes' labels, when the scores were computed

    def set(self, node: str, found: Images) -> None:
        """The images that a node has now; none for a node that was removed."""
        before = self._of_node.get(node, ())
        if found == before:
            return
        for image, _ in before:
            sizes = self.sizes[image]
            sizes.pop(node, None)
            if not sizes:
                del self.sizes[image]
        for image, size in found:
            self.sizes.setdefault(image, {})[node] = size
        if found:
            self._of_node[node] = found
        else:
            del self._of_node[node]
        self._scores.clear()

    def of(self, node: str) -> Images:
        """The images of a node."""
        return self._of_node.get(node, ())

    def scores(self, wanted: tuple[str, ...]) -> Float | None:
        """`float64[N]`, 0..100, for a pod with these images, one for each container; None where all rows are equal."""
        if not wanted or not self.sizes:
            return None
        if self._revision != self._encoder.labels_revision:
            self._revision = self._encoder.labels_revision
            self._scores.clear()
        if wanted not in self._scores:
            if len(self._scores) >= _MAX_KEPT:
                self._scores.clear()
            self._scores[wanted] = self._computed(wanted)
        return self._scores[wanted]

    def _computed(self, wanted: tuple[str, ...]) -> Float | None:
        rows = self._encoder.node_rows
        scaled = np.zeros(self._encoder.all_rows)
        for image in wanted:
            sizes = {rows[name]: size for name, size in self.sizes.get(image, {}).items() if name in rows}
            share = len(sizes) / len(rows) if rows else 0.0
            for row, size in sizes.items():
                scaled[row] += int(size * share)
        found = images.score(scaled, len(wanted))
        here = found[list(rows.values())]
        return found if len(here) and here.min() != here.max() else None
