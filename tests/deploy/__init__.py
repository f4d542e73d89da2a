"""What is written for those who run the service holds: the compose file, the container and the runbook."""
