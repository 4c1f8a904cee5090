"""Compute labels and likelihoods from noisy tables and noisy reports, before a student learns from them."""
