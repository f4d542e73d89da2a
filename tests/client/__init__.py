"""Tests of the client, over real sockets."""
