"""The journal of credit in a relational database: SQLite by default, PostgreSQL by URL.

Belongs here: tables, migrations, and transactions. Not here: what is booked (policy/credit, engine/credit).
"""
