"""The plots of a report: one module each, with a function that draws data on given axes."""
