"""The options of each command, one file a command; what a command does is imported when it runs."""
