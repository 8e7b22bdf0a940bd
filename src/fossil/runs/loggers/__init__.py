"""Loggers, a file each: a program that shows how a training goes. Dropping a file in adds one."""
