"""Tables in Parquet files. Needs polars, which is loaded when it is used (`cotenant[history]`).

Belongs here: files of a running process. Not here: traces (cotenant_lab/traces).
"""
