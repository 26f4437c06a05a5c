"""The simulated cluster in rounds: gangs on unlike GPUs under the rules of `RoundPolicy`."""
