"""Every imitation table and figure of the paper, each made by one command: `compile-il reproduce NAME`."""
