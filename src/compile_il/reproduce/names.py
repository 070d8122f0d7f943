"""What can be reproduced, and how thoroughly."""

from typing import Literal

Scale = Literal["smoke", "short", "paper"]
"""Two steps of tiny networks; minutes on one accelerator; the paper's iterations."""
PaperName = Literal["table1", "table2", "table3", "figure4", "figure5", "figure7", "qualitative"]
"""Tables and figures of the paper."""
StudyName = Literal[PaperName, "classic"]
"""These, and methods that are older than networks."""
PictureFormat = Literal["png", "svg", "pdf"]
TITLES: dict[StudyName, str] = {
    "table1": "Reacher: where one target has been reached",
    "table2": "Reacher, Gaussian codes",
    "table3": "Reacher: number of segments and temperature",
    "figure4": "Grid worlds",
    "figure5": "Agents that learn with skills",
    "figure7": "Grid worlds, Gaussian codes",
    "qualitative": "Skills at work",
    "classic": "Older methods",
}
