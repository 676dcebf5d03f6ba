"""What the parts that act on their own may do: rungs, windows, freezes.

Belongs here: the values. Not here: which of them count now (policy/autonomy).
"""
