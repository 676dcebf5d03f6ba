"""Latency of services: how it is summarised, and which part of a request it comes from.

Belongs here: sketches, the critical path, the correction of clock skew; pure functions. Not here: what happens over
time (engine/traces).
"""
