"""HTTP: the table of operations, the application that serves it, the event stream, and the OpenAPI document."""
