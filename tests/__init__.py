"""Tests of patebench."""
