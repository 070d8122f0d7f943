"""What can be reproduced, and how thoroughly."""

from typing import Literal

Scale = Literal["smoke", "short", "paper"]
"""Two steps of tiny networks; minutes on one accelerator; the paper's iterations."""
StudyName = Literal["table1", "table2", "table3", "figure4", "figure7"]
"""Tables and figures of the paper."""
