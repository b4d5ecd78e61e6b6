"""The version, which pickles name."""

__version__ = "0.2.0.dev0"
