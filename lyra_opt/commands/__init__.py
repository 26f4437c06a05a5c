"""The sub-commands of the command line that need nothing outside this package."""
