"""Sampled stacks and what they say of requests: pure functions of a timeline and spans.

Not here: who samples (drivers/stacks) and who asks (services/profiling).
"""
