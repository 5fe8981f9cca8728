"""Adapters: each real library seen through the operations of the interface."""
