"""The command line: one thin file a verb. Nothing heavy is imported before a verb needs it."""
