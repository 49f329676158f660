"""Capacity, power and cost planning for training very large models."""

__version__ = "0.1.0"
