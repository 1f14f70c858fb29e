"""A stream's evidence: it has a base, and observes each step of event time once it is mature."""
