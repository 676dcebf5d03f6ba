"""What spans become: counts and sketches by operation, finished traces, the graph of services, and the traces that are
kept.

Belongs here: the state machine that takes span batches and the time. Not here: decoding (drivers/otlp), pages
(services/traces), formulas (policy/objective).
"""
