"""Readers of file formats: they turn bytes into arrays, or raise a `DataError`."""
