"""Snapshot tests: what the functions of a room answer to drawn inputs, kept as text; a change of behaviour is a diff.

    python -m tests.snapshot --write [WORD ...]     records today's answers; WORD: part of a snapshot's name
    python -m tests.snapshot --show WORD CASE       one case, its inputs and its answer in full

Belongs here: drawing of inputs from type hints (`drawing`), values as text (`rendering`), the cases of a module
(`cases`) and their files (`room`). What is tried is listed by the rooms' `test_snapshots.py`, the answers lie beside it
in `snapshots/`. syrupy and inline-snapshot were looked at: they compare and rewrite files, which is the smallest part
of this; floats rounded, sets sorted, inputs drawn and cases chosen would have to be written for them as well.
"""
