"""All sentences of the planner that users read in conditions, Events and `status.waiting`, a module for each topic.

No other module of `plan` has any, nor have the Events of the controller (`tests/unit/test_structure.py`). Elsewhere are
the problems of a spec, beside the rules that it breaks (`api/validation.py`, `frameworks`), and the errors about the
objects of others, which the client finds (`client/ownership.py`, `client/finalizers.py`).
"""
