"""Readers, a file each: one form in which graphs come. Dropping a file in is all it takes to add one."""
