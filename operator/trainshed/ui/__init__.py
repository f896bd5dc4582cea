"""The page of `trainshed ui`: what jobs do, in a browser, with the rights of the user who opens it."""
