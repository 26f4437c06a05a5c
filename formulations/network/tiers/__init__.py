"""The tier model: which gangs run on which machine, in which rack, or across racks."""
