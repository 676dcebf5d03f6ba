"""The agent's loop: ticks, their pace, triggers in between, and the requests to the keeper.

Belongs here: when the engine runs and how its instructions are executed. Not here: decisions (engine/node).
"""
