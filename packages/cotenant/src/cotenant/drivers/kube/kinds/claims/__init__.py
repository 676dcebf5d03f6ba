"""Kinds of dynamic resource allocation, resource.k8s.io: claims, classes, slices and taint rules, read as values, and
what a scheduler writes into claims.

Belongs here: forms and their translation. Not here: which devices a claim gets (policy/claims).
"""
