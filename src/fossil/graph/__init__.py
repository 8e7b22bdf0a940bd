"""What a graph is: plain arrays on the host, what was odd about them, their structure and their splits."""
