"""The methods, a file each, behind one contract (`base`). Dropping a file in is all it takes to add one."""

DEFAULT_METHOD = "fossil_channels"
"""What trains when nobody names a method; `fossil` is the paper's (decision 36)."""
