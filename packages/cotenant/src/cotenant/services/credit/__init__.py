"""`cotenant credit`: the process that books what tenants earn and spend, its pages, and reading the journal.

Belongs here: watches, times, pages. Not here: prices (policy/credit), accounts (engine/credit), the database
(drivers/journal).
"""
