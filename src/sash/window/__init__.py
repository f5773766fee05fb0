"""One out-of-order sliding window: the class, its bytes, the results of a slide, pictures and a tour."""
