"""What comes in: graphs, their readers, the catalogue, their structure and their subgraphs."""
