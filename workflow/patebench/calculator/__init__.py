"""Compute the privacy cost of a release, the number of labels that a budget allows, and the ε to publish.

The commands `patebench epsilon` and `patebench calibrate` use this package without a configuration or the workflow.
"""
