"""Shares of time: the linear programmes of fair and of cheap shares, and of the makespan."""
