"""The data sets that are known by name: one module per family, with its files and hashes."""
