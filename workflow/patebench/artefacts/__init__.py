"""What stages share to read and write artefacts: provenance, vote files, ledgers, releases and records."""
