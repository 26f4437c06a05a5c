"""
How many servers to lend
========================

Every five minutes an inference cluster lends what it does not need, and calls servers back ahead of
its forecast. How much is lost by not knowing the demand to come? The yardstick is the clairvoyant's
choice, solved exactly: a server that is lent for a second is worth 1, and one that is called back
costs half an hour of one. This is Lyra's inference cluster: 520 servers, with the day and night of
its Figure 1, drawn for 15 days.
"""

import pandas as pd

from lyra_opt.instances.workloads.lyra_like import inference_demand
from lyra_opt.simulation.forecast import find_forecaster, forecaster_names
from lyra_opt.simulation.loaning import compare_forecasters

demand = inference_demand(days=15, servers=520)
forecasters = [find_forecaster(name) for name in forecaster_names()]
records = compare_forecasters(demand, forecasters, servers=520, return_cost_s=1800)
table = pd.DataFrame(records).set_index("name")
table.round({"share_of_clairvoyant": 3}).drop(columns="value_server_s")

# %%
# A forecast that follows the trend is worth nearly as much as knowing the demand of the next five
# minutes, as the oracle does. What that leaves to the clairvoyant are the 2 % that are never lent,
# and servers that are called back for one peak and lent again. The other three forecasts leave
# the inference cluster short of thousands of server-intervals, of 2.2 million.

from lyra_opt.core.pictures import COLOURS, Drawing
from lyra_opt.simulation.loaning import Orchestrator

DAYS = 2
STEPS = DAYS * 288
hours = [step / 12 for step in range(STEPS)]


def draw(figure):
    """Draw what is needed, and what is lent by two forecasts."""
    panel = figure.subplots()
    needed = [520 * share for share in demand.busy_share[:STEPS]]
    panel.plot(hours, needed, color="0.4", label="needed for inference")
    for number, name in enumerate(("autoregressive", "seasonal")):
        loans = Orchestrator(servers=520, forecaster=find_forecaster(name)).plan(demand, STEPS)
        style, colour = "-:"[number], COLOURS[number]
        panel.step(hours, loans.on_loan, style, where="post", color=colour, label=f"lent, {name}")
    panel.set(xlabel="time (h)", ylabel="servers", xlim=(0, 24 * DAYS), ylim=(0, 520))
    panel.legend(loc="upper left", bbox_to_anchor=(1.01, 1))


Drawing(8, 3.5, draw).figure()
