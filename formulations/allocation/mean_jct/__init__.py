"""Models of mean JCT, most of them with time divided into intervals.

Relaxations give lower bounds; models whose solutions are feasible schedules give upper bounds.
"""
