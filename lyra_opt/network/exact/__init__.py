"""No exact method of its own: the models are in `formulations/network`."""
