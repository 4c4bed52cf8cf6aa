"""What is run: methods × columns × seeds, with the settings of a preset."""
