"""Pages with figures: the report of a comparison (`page`), of a search for knobs (`tuning_page`), and the document that
every page of the project shares (`document`).

Belongs here: tables, charts, the sentences about them, and the style of self-contained pages. Not here: figures and
intervals themselves (cotenant_lab/metrics.py, cotenant_lab/statistics.py), and the console, whose design this follows
(console/).
"""
