"""noisebound inside other frameworks; each is imported only when asked for."""
