"""One out-of-order sliding window: the class, its bytes, the results of a slide, drawings and a tour."""

from sash.window.window import STRUCTURES, Window

__all__ = ["STRUCTURES", "Window"]
