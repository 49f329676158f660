"""Profiles: one TOML file a thing, installed with the package."""
