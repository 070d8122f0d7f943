"""Names of what can be reproduced, and of the scales at which it can."""

from typing import Literal

Scale = Literal["smoke", "short", "paper"]
"""How long to train: two steps of tiny networks; minutes on one accelerator; the paper's iterations."""
PaperName = Literal["table1", "table2", "table3", "figure4", "figure5", "figure7", "qualitative"]
"""Name of a table or a figure of the paper."""
StudyName = Literal[PaperName, "classic"]
"""Name of a study: a table or a figure of the paper, or `classic`, methods that are older than networks."""
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
