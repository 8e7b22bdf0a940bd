"""Exports, a file each: one form in which vectors leave for other programs. Dropping a file in adds one."""
