"""A run: what is planned, how it is fitted, the folder it leaves behind, and the vectors that come out."""
