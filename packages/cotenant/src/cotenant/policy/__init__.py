"""Policies: pure decision functions, one folder per subject. No clock, no I/O, no global randomness.

Belongs here: functions from values (model) to decisions with reasons. Not here: state over time (engine), or anything
that reads or writes (drivers, services). The folders do not import one another, except that baselines use placement.
"""
