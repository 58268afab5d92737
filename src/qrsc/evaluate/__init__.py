"""Scoring against the truth: methods, metrics, runs over data sets, reports, and the paper's studies."""
