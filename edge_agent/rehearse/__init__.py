"""Failure drills on a real installation: fault ports, stand-ins for servers, and the sheet that judges."""
