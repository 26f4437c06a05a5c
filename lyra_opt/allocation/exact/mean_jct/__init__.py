"""Mean JCT by branch and bound on the order of events."""
