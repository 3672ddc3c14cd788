"""The sides of joins as views."""
