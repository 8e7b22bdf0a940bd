"""The learnable parts of Section 4, a file each: encoders, generators, fusion, costs, contrast."""
