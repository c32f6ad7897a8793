"""Other people's tools, fed by the same metrics that the run folder has."""
