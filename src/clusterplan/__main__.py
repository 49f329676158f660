"""``python -m clusterplan`` is the command ``clusterplan``."""

from clusterplan.cli import main

if __name__ == "__main__":
    main()
