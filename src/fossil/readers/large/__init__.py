"""Tables that do not fit in memory, read in batches and written as a graph on disk."""
