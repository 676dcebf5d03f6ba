"""What the kinds look like: fields, defaults and rules of the built-in ones, and the tree that every schema compiles to."""
