"""Static pages in the console's design: what a figure is, tables, and one HTML file that carries both.

Belongs here: values of figures, HTML of tables, the document, and the script and style that `make console` builds of
console/src/report. Not here: what a page says (`services/assess`, the reports of cotenant-lab, the demonstration), the
console itself (`services/console`).
"""
