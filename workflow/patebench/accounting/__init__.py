"""Privacy accounting for votes: what a release costs, by theorem.

Each module is one subject and knows nothing of mechanisms: it takes counts, noise parameters and orders, and returns
privacy curves. A mechanism states which accountants bound it (`accountant.py`), with theorem and kind.
"""
