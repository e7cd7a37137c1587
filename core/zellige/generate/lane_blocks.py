from __future__ import annotations
def lane_launch(picker, tensors):
    raise NotImplementedError
