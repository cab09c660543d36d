"""The modes of scripts/bench-tables, one file each."""
