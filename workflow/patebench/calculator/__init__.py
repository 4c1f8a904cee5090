"""Compute the privacy cost of a release, how much may be released, and the ε to publish.

The commands `patebench epsilon` and `patebench calibrate` use this package without a configuration or the workflow.
"""
