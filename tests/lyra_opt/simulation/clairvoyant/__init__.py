"""Tests of schedules by somebody who knows the whole workload."""
