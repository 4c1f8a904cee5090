"""Audits: lower bounds on the ε of a mechanism, computed and sampled, compared with the stated bounds.

Stated bounds are proven or claimed upper bounds. An audit does not rely on them: it searches for two adjacent data sets
and an event that distinguishes them better than the stated ε allows.
"""
