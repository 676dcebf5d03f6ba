"""The recovery of services in trouble on one node: incidents with a cause, a ladder of actions, each a lease with a
proof, and the story of both.

Belongs here: the state machine of an incident, its settings, the node policy that runs it, its explanation. Not here:
finding the cause (policy/interference/attribution), holding knobs (engine/node/knobs).
"""
