"""The tier-aggregated model: which gangs are on which machine, in which rack, across racks."""
