"""What callers of the service are promised when it is killed, starved, cut off from its database or raced."""
