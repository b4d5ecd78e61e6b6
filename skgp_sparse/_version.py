"""The version, which pickles name."""

__version__ = "0.1.0"
