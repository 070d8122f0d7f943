"""`python -m compile_il` is the command `compile-il`."""

from compile_il.cli import main

if __name__ == "__main__":
    main()
