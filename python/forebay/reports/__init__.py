"""Reports of a loader, as text, JSON and HTML."""
