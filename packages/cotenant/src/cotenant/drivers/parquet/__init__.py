"""Tables in Parquet files. Needs polars, which is loaded when it is used (`cotenant[history]`)."""
