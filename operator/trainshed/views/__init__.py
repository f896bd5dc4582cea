"""What users are shown of jobs: pure functions from documents of the API to tables and sentences.

Nothing here reads a cluster or a clock. The text that others have written is made printable here, once.
"""
