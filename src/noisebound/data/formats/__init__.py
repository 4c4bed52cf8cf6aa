"""Readers of files as they are published: bytes in, arrays out, or a `DataError`."""
