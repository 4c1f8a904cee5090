"""Baselines: what the private data give without a teacher ensemble."""
