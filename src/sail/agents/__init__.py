"""Base agents: how a head acts and what its loss is. The rule's bonus is not their business."""
