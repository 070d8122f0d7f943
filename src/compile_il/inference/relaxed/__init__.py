"""The paper's inference: boundaries and codes from relaxed distributions, through recurrent passes with soft masks."""
