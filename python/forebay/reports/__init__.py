"""What a loader says of itself, as text, JSON and HTML."""
