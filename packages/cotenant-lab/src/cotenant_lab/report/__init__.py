"""Pages with figures: the report of a comparison (`page`), and of a search for knobs (`tuning_page`).

Belongs here: tables, charts and the sentences about them. Not here: figures and intervals themselves
(cotenant_lab/metrics.py, cotenant_lab/statistics.py), and the document that every page of the project shares
(`cotenant.model.pages`).
"""
