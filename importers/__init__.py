"""Other tools' files, read into our result shape. One module a format."""
