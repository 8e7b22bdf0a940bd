"""What a file from a stranger may do: be read, or be refused in one message; no more memory than it is worth."""
