"""Signatures of files that are shipped, made and checked with keys in PEM files.

Belongs here: keys and signatures. Not here: what is signed, and whose keys count (services/zones).
"""
