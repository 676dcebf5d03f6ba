"""The OpenAPI v2 and v3 documents that clients read for validation, explain and completion, in JSON and in protobuf
(gnostic).

Not here: the schemas' source (`schema`), and the discovery documents (`http/discovery.py`).
"""
