"""Representations of requests and responses: content negotiation, JSON, YAML, Tables, and Kubernetes' protobuf.

Not here: reading bodies from the connection (`http/bodies.py`), and what the columns of a Table are (`columns`).
"""
