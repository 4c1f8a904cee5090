"""Audits: lower bounds on the ε of a mechanism, computed and measured, compared with the stated bounds.

Stated bounds are upper bounds with a proof, or claims. An audit relies on neither: it searches for two adjacent data
sets and an event that distinguishes them better than the stated ε allows.
"""
