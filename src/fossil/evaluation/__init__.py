"""How good an embedding is: tasks, protocols, probes, the rule that picks a score, and its interval."""
