"""How good an embedding is: splits, linear probes, the rule that picks a score, and its interval."""
