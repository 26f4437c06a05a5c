"""What is measured of a simulation, what is proved of it, and how schemes compare."""
