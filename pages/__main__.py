"""The script that the server runs for every visitor.

It stands here so that Streamlit's own discovery of a ``pages`` folder beside the main script
never starts.
"""

from app import main

main()
