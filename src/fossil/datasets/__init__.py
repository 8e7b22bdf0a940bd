"""Graphs by name: the catalogue, the files it needs, and the graphs that are made on the spot."""
