"""Requests as they are traced: spans in columns, and what a finished trace is.

Belongs here: frozen values that decoders, the trace engine and its pages exchange. Not here: decoding (drivers/otlp)
and judgement (policy/objective).
"""
