"""The pattern model of gang placement, which counts the equal machines filled in the same way."""
