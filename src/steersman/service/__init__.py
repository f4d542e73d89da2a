"""The service: the library's verbs over HTTP, for many tenants at once."""
