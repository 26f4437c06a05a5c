"""Schedules in the making: the evaluator that every policy is run by."""
