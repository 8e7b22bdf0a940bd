"""What is drawn from a graph: subgraphs around anchors, important nodes around every node, neighbours."""
