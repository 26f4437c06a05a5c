"""The network of a simulated cluster: racks, communication, and timers by demand class."""
