"""The multiple-choice knapsack of Lyra's second phase: data, relaxation and inner loops."""
