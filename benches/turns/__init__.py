"""Code for the benches in which contestants take turns, with a new process for each run.

It is imported as `turns` from the folder above. A bench puts that folder on the path, and `children` does so
for contestants.
"""
