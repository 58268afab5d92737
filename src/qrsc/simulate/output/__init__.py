"""Simulated clips on disk: data-set layouts, videos, fixed test sets, contact sheets."""
