"""Bounds on the privacy loss of answers from votes.

No module here depends on a mechanism: functions take counts, noise parameters and orders, and return Rényi curves or ε.
A mechanism lists its accountants (`accountant.py`), each with its theorem and kind.
"""
