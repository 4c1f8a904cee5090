"""Code that all parts of patebench share: errors, artefact files, seeds, registries and bounds on ε."""
