"""Makes all files of a release of the commit that a tag names: `make release VERSION=0.2.0`."""
