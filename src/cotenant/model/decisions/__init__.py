"""What was decided and why: decision records, reasons counted per node, and answers for people and scripts.

Belongs here: values that explain. Not here: how they are found (engine/explain).
"""
