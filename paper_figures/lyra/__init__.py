"""Tables and figures of Lyra (EuroSys 2023)."""
