"""Ids that wait for their other half (`join_table`), and their bytes (`join_segment`)."""
