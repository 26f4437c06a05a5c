"""Tests of the words of the front door."""
