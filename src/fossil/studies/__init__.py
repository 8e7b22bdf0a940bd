"""Studies: many trainings declared in one file, done once each, and the tables and figures made of them."""
