"""Account for the privacy of released votes.

Each module covers one subject and is independent of mechanisms: it takes counts, noise parameters and orders, and
returns privacy curves. A mechanism lists its accountants (`accountant.py`), each with its theorem and kind.
"""
