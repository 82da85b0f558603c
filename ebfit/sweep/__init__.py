"""The small WSD runs: model, data, training loop, and a grid of runs side by side. The only room that imports torch.

What plans a sweep (`architecture`, `presets`, `recipe`, `grid`, `data`) does without torch, so that a plan can be
made and checked where nothing is trained.
"""
