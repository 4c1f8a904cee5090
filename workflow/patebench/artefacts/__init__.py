"""Shared code of stages to read and write artefacts: inputs that belong together, vote files, releases and records."""
