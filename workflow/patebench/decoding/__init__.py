"""Decode noisy releases: compute labels and likelihoods, from which a student then learns.

Mechanisms release either a table of noisy counts, or reports, which are the teachers' perturbed votes.
"""
