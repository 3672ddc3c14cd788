"""The gRPC services of a front."""
