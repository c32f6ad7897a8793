"""From a config to a run folder: one learner, and the loop over it."""
