"""Mean JCT on a grid of time: a relaxation from below, schedules from above."""
