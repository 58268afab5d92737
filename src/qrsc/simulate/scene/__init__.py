"""Random worlds and the demonstration scene: objects, their placement and motion."""
