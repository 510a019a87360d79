"""DataFrame in, alt.Chart out."""
