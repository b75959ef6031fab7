"""Picture of the campaign in docs/howto/campaigns.md: `PYTHONPATH=docs python -m figures.campaign docs/images`."""

import re
import sys
import tempfile
from pathlib import Path

import numpy as np

from samara.campaigns.failure_curve import failure_curve
from samara.campaigns.outcome import FAIL, INVALID
from samara.campaigns.sweep import sweep
from samara.core.atomic_files import atomic_write
from samara.view.plot import campaign as draw
from samara.view.plot.style import samara_style

PAGE = Path(__file__).parents[1] / "howto" / "campaigns.md"
FACTORS = {"wind.mean_W.x": "m/s", "wind.sigma": "m/s", "mass": "kg"}
DPI = 95  # [dots per inch]


def draw_campaign(folder: str | Path) -> None:
    """Fly the files of the page and draw campaign_rates.png."""
    scenario, campaign = re.findall(
        r'^```toml title="[^"]*"\n(.*?)^```$', PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )[:2]
    with tempfile.TemporaryDirectory() as work_folder:
        (Path(work_folder) / "delivery.toml").write_text(scenario, encoding="utf-8")
        (Path(work_folder) / "gusty.toml").write_text(campaign, encoding="utf-8")
        rows = sweep(Path(work_folder) / "gusty.toml", Path(work_folder) / "out").table()
    outcome = rows["outcome"].to_numpy(zero_copy_only=False).astype(str)
    failed = np.isin(outcome, (FAIL, INVALID))
    factors = {f"{name} [{unit}]": rows[name].to_numpy() for name, unit in FACTORS.items()}
    curves = {name: failure_curve(x, failed) for name, x in factors.items()}
    picture = draw.failure_rates(factors, failed, curves)
    with atomic_write(Path(folder) / "campaign_rates.png") as temporary, samara_style():
        picture.savefig(temporary, format="png", dpi=DPI)


if __name__ == "__main__":
    draw_campaign(sys.argv[1])
