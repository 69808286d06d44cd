"""python -m adasumrun -np 4 python train.py."""

import sys

from adasumrun.cli import main

sys.exit(main())
