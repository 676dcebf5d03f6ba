"""Spans from Jaeger clients: the agent's UDP port.

Belongs here: the Thrift compact protocol, Jaeger's batches as OTLP requests, the datagram endpoint.
Not here: OTLP itself (drivers/otlp), what is made of spans (engine/traces).
"""
