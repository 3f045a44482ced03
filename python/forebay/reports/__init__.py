"""The reports of a loader, its plan and its statistics, as text, JSON and HTML."""
