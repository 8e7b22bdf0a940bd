"""Training: the loop, what it runs on, what it leaves behind so that it can go on."""
