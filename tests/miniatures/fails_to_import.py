"""A module that raises while it is imported."""

WIDTH = int("sixty-four")
