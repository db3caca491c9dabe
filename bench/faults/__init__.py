"""The fault programme: drills that break real processes, and the ledgers that judge them."""
