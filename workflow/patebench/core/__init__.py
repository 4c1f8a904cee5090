"""What every part of patebench shares: errors, artefact files, seeds, registries and the bound record."""
