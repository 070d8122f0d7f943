"""`python -m compile_il.cli` is the command `compile-il`."""

from compile_il.cli import main

if __name__ == "__main__":
    main()
