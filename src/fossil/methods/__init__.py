"""The methods, a file each, behind one contract (`base`). Dropping a file in is all it takes to add one."""
