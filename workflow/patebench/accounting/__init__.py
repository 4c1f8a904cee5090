"""Bounds on the privacy cost of labels that a mechanism draws from votes.

These modules do not depend on the classes of mechanisms. Their functions take counts, noise parameters and Rényi
orders, and return Rényi divergences or ε. A mechanism lists its accountants (`accountant.py`). Each accountant bounds ε
by one theorem.
"""
