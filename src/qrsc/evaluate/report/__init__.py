"""Tables, charts and pages made from scores."""
