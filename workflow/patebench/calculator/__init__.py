"""The calculator: what a release costs, how much one may release, and what to tell about it.

The commands `patebench epsilon` and `patebench calibrate`, which need neither a configuration nor the workflow.
"""
