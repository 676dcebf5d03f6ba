"""The console and the report in a browser. A package, so that the browser that its cases share ends with the last."""
