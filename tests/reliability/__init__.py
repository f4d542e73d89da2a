"""What a user is promised when processes race, die, lose their server or run out of room."""
