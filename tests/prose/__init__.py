"""A check of the project's texts against phrases that readers stumble over; part of `make lint`."""
