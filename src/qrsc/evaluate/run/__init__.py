"""Scoring of methods on data sets, frame by frame."""
