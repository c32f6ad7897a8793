"""Studies: a file that describes many runs, the folder they go to, and the executors that run them.

A study file (`definition`) expands to cells (`cells`). A driver (`driver`) hands the cells that are not done to an
executor (`local` processes, or a Ray cluster: `on_ray`); each cell is a process of its own (`worker`) that is watched
over (`supervisor`) and trains into a run folder. Everything that must outlive a process is in the study folder
(`folder`, `records`), so a study goes on after whatever died.
"""
