"""Small databases as each released schema left them; they are never made again once released."""
