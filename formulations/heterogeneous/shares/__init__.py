"""Linear programmes over shares of time, for fairness, throughput, cost and makespan."""
