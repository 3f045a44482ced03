"""The classes for the option ``samples=`` of a loader: windows of rows, packs, buckets, and draws by
weight."""
