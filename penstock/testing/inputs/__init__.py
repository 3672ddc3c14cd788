"""Apps and documents for crash tests."""
