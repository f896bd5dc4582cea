"""The pictures and tables of docs/, made from the operator's own tables: `PYTHONPATH=tests python -m docs`."""
