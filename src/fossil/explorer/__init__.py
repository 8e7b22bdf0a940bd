"""`fossil explore`: the page of a report over a run too large for a file, answered live by a server on this machine."""
