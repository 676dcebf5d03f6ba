"""Custom resources: CustomResourceDefinitions checked, compiled, and served while they exist."""
