"""Access to the machine: console, progress, signals, files, spreadsheets, a Ray cluster."""
