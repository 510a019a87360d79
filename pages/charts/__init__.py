"""DataFrame in, alt.Chart out."""

from altair.utils import schemapi

# Altair checks each part of a picture as it is made, which costs a page tens of milliseconds and
# finds mistakes of ours only: tests check every finished picture instead.
schemapi.disable_debug_mode()
