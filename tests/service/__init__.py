"""Tests of the service, over real sockets."""
