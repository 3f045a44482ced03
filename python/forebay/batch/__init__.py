"""The parts of a batch: columns, and lists of differing lengths."""
