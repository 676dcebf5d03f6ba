"""Printer columns: what `kubectl get` shows of each built-in kind, and the Table documents that carry it.

Not here: columns of custom resources, which their definitions declare (`custom`), and content negotiation
(`http/encoding`).
"""
