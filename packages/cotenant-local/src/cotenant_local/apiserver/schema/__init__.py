"""Schemas of the built-in kinds: fields, defaults and validation rules, and the tree that every schema compiles to.

Belongs here: the compiled types, typed decoding, and the rules of each kind (`kinds`).
Not here: immutability and what the server sets (`kinds` of the API server), custom resources (`custom`).
"""
