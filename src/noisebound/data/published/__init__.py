"""The data sets that are known by name: one file a family, each with its files and hashes."""
