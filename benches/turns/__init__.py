"""Code that benches share whose contestants take turns, each run in a process of its own.

It is imported as `turns` from the folder above. A bench puts that folder on the path, and `children` does so
for contestants.
"""
