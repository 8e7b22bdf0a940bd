"""Which vectors are nearest to a vector, by cosine: exactly among few, by an index among many."""
