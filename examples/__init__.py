"""Small apps that run as they are."""
