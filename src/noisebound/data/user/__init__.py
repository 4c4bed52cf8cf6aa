"""The user's own files: images in folders, tables, arrays, IDX files."""
