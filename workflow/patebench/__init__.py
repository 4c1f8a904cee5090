"""patebench: a reproducibility benchmark for private learning with teacher ensembles."""

__version__ = "0.1.0"
