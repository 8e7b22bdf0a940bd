"""What vectors are scored by: a task a file, behind one contract (`base`)."""
