"""Generates the pictures and tables of docs/ from the operator's own tables: `PYTHONPATH=tests:hack python -m docs`."""
