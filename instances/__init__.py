"""Where instances come from: seeded families, trace readers and a small library."""
