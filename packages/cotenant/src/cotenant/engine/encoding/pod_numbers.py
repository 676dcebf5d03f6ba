"""Numbers of pods, and the shape of each.

Arrays are indexed by pod number, pods come and go, and a number must not be reused while a ledger or a queue still
refers to it. A pod is removed in two steps: its name at once, its number when all holders have dropped it.
Limits: a shape is a row of the encoder here; its users are counted there.
"""

from __future__ import annotations

from collections.abc import Sequence

from cotenant.model.errors import InvalidInput, Permanent


class PodNumbers:
    """The pods of one cluster. `by_key`: number by namespace/name."""

    def __init__(self) -> None:
        self.by_key: dict[str, int] = {}
        self._pods: list[tuple[str, int] | None] = []  # by number: name ("" = removed) and shape; None = free
        self.free: list[int] = []

    def __len__(self) -> int:
        """One more than the largest number that a pod has had."""
        return len(self._pods)

    def check(self, key: str) -> None:
        """`InvalidInput` if the name is taken."""
        if key in self.by_key:
            raise InvalidInput("pod", key, "a namespace and name that no other pod has")

    def add(self, key: str, shape: int) -> int:
        """The number of a new pod with this shape."""
        if self.free:
            number = self.free.pop()
        else:
            number = len(self._pods)
            self._pods.append(None)
        self._pods[number] = (key, shape)
        self.by_key[key] = number
        return number

    def remove(self, key: str) -> int:
        """Remove a pod's name, and return its number, which stays taken until `release`. `InvalidInput` for an
        unknown name.
        """
        try:
            number = self.by_key.pop(key)
        except KeyError:
            raise InvalidInput("pod", key, "a pod that was added") from None
        self._pods[number] = ("", self.shape_of(number))
        return number

    def release(self, number: int) -> int:
        """Free the number of a removed pod; its shape. `InvalidInput` for a pod that was not removed."""
        held = self._pods[number] if 0 <= number < len(self._pods) else None
        if held is None or held[0]:
            raise InvalidInput("pod number", number, "the number of a pod that was removed and not released")
        self._pods[number] = None
        self.free.append(number)
        return held[1]

    def offer(self, numbers: Sequence[int], free: Sequence[int], size: int) -> None:
        """Give these free numbers to the next pods, in this order, and after them the numbers that would follow with
        this list of free ones and this size. Raises `Permanent` unless these are all that are free.
        """
        grown = range(len(self._pods) - 1, size - 1, -1)
        after = [*grown, *free, *reversed(numbers)]
        if sorted(after) != sorted(self.free):
            raise Permanent(f"{len(self.free)} numbers of pods are free, {len(after)} were to be offered")
        self.free[:] = after

    def shape_of(self, number: int) -> int:
        """The shape of a pod that is not released."""
        held = self._pods[number] if 0 <= number < len(self._pods) else None
        if held is None:
            raise InvalidInput("pod number", number, "the number of a pod that was added")
        return held[1]

    def with_unnamed(self, shape: int) -> PodNumbers:
        """A copy with one more pod, without a name, of this shape. Only `shape_of` may be asked."""
        made = PodNumbers()
        made.by_key, made.free = self.by_key, self.free
        made._pods = [*self._pods, ("", shape)]
        return made
