"""The schemes that come with the project; each is an entry point."""
