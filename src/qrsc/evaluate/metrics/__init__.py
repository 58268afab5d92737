"""Metrics of pictures, fields and clips against the truth; `metric_table` lists them."""
