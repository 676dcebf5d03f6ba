"""The OpenTelemetry protocol (OTLP): requests into span batches, and the gRPC server.

Belongs here: protobuf, JSON and gzip, the answers and errors of the protocol. Not here: what spans mean (engine/traces)
and the HTTP pages (services/traces).
"""
