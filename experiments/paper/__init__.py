"""Tables and figures of the paper's experiments, each made by one command: `compile-il reproduce NAME`."""
