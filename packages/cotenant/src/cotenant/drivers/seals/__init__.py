"""Seals of pods' holdings: signing with the scheduler's key, checking with its certificate.

Belongs here: making and reading keys and certificates, signatures. Not here: what is signed (model/cluster/seal.py),
and what follows from it.
"""
