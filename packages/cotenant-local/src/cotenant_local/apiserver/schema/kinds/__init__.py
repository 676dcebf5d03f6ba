"""Defaults and validation rules of the built-in kinds, one subject per file, on plain mappings.

Every `default_*` fills in absent fields in place; every `check_*` returns or appends validation errors worded as in
Kubernetes. Not here: shapes (`schema/openapi.py`), and rules that need the stored object's history or other objects
(`kinds` of the API server).
"""
