"""The routes that are not hot: FastAPI over the use cases."""
