"""How runs are done: each in its own folder, by local processes or by a cluster."""
