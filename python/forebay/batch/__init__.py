"""What a batch is made of: its columns, and lists of differing lengths."""
