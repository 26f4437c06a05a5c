"""What no schedule of a whole workload can beat: bounds from prices of GPU time."""
