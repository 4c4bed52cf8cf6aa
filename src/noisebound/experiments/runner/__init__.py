"""How runs are done: in folders of their own, by processes or a cluster, however interrupted."""
