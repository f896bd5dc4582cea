"""How far a training has come: what lines of its log say, and what follows from them. No clock, no network."""
