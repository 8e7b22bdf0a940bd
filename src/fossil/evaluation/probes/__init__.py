"""Linear probes: classifiers fitted on an embedding, for many splits at once."""
