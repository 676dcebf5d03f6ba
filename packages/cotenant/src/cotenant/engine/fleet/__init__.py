"""The fleet over time: who is there by their heartbeats, groups of containers brought up or undone, answers given once,
where containers go.

Belongs here: state machines whose inputs are heartbeats, answers and the time. Not here: the values themselves
(model/fleet), the bus and the container runtime (drivers), the processes that carry instructions out (services/fleet).
"""
