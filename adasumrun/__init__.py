"""adasumrun: the launcher of tf_adasum's ranks, a program of its own.

It imports neither TensorFlow nor tf_adasum, so that it starts at once; `python -m adasumrun` is the
same as the command.
"""
