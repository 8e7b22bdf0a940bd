"""The learnable parts of Section 4, a file each: encoders, generators, fusion, contrast; and those of other methods."""
