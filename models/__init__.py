"""What numbers mean: pure functions and data types. No I/O, no Streamlit, no SQL, no torch."""
