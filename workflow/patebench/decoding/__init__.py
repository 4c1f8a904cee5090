"""Decode noisy tables and noisy reports before a student learns from them."""
