"""The paper's protocol: its columns, methods and presets, a runner, and every table and figure."""
