"""Read artefacts, the files that stages exchange, and check that they belong together."""
