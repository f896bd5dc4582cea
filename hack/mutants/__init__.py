"""Seeded bugs: known bugs of this and other operators, put into a copy of the code one at a time to test the tests."""
