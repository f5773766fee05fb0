"""The explorer: a local page on which one builds and breaks a window by hand and sees its structure.

The windows are native ones. What they do is observed from outside, by times and states that keep a log (`traced.py`).
"""
