"""What was decided and why: decision records, reasons counted per node, and answers to queries.

Belongs here: values that explain decisions. Not here: how the explanations are computed (engine/explain).
"""
