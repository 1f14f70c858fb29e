"""Payloads of model servers: read by mappings, collected into batches, stored as rows by id."""
