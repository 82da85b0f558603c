"""From a fit to a batch-size plan, and from a plan to what trainers read."""
