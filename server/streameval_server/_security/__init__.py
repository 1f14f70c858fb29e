"""Who may do what: tokens, rules, certificates."""
