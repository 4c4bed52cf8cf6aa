"""Access to the machine: files, spreadsheets, a Ray cluster."""
