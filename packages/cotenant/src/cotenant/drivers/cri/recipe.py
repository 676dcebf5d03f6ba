"""What is noted at a pod so that its container can be made once more, by an agent that knows nothing else of it.

It has the container's environment too, which whoever reads the runtime's socket sees at the container anyway.
"""

from __future__ import annotations

import msgspec

from cotenant.model.errors import Permanent
from cotenant.model.fleet.supervision import Supervision
from cotenant.model.fleet.template import ContainerTemplate
from cotenant.model.json_object import JsonObject

SUPERVISED = "cotenant.io/supervised"  # a label of pods and containers
RECIPE, QUICK_ENDS = "cotenant.io/recipe", "cotenant.io/quick-ends"  # annotations of a pod, of a container


class Recipe(msgspec.Struct, frozen=True):
    """Of one pod: what is done for its container, and the requests that it was made by."""

    supervision: Supervision
    pod: JsonObject = {}
    container: JsonObject = {}

    def noted(self, pod: JsonObject, container: JsonObject) -> str:
        """As an annotation, with these requests."""
        return msgspec.json.encode(Recipe(self.supervision, pod, container)).decode()

    def attempt(self, number: int, quick_ends: int) -> JsonObject:
        """The request for one more container."""
        metadata = {**self.container["metadata"], "attempt": number}
        return {**self.container, "metadata": metadata, "annotations": {QUICK_ENDS: str(quick_ends)}}


def recipe_of(template: ContainerTemplate) -> Recipe | None:
    """None where nothing is to be done for it."""
    supervision = Supervision(template.restart, template.max_restarts, template.health)
    return Recipe(supervision) if supervision.is_needed else None


def read_recipe(text: str) -> Recipe:
    """Raises `Permanent` where somebody has changed it."""
    try:
        return msgspec.json.decode(text, type=Recipe)
    except msgspec.DecodeError as error:
        raise Permanent(f"annotation {RECIPE}: {error}") from error
