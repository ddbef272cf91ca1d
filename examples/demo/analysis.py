# SPDX-License-Identifier: Apache-2.0
"""What a model would write: group a table, draw it, report it. Runs inside the sandbox."""

import matplotlib.pyplot as plt
import pandas as pd
from reportlab.lib import colors
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import getSampleStyleSheet
from reportlab.lib.units import cm
from reportlab.platypus import Image, Paragraph, SimpleDocTemplate, Spacer, Table, TableStyle

data = pd.read_csv("/mnt/data/weather.csv", parse_dates=["date"])
data["month"] = data["date"].dt.month
print(f"{len(data)} days, {data['location'].nunique()} cities, "
      f"{data['date'].min():%Y-%m-%d} to {data['date'].max():%Y-%m-%d}")

years = data["date"].dt.year.nunique()
monthly = data.groupby(["location", "month"]).agg(
    rain_mm=("precipitation", lambda s: s.sum() / years),
    warmest=("temp_max", "mean"), coldest=("temp_min", "mean"), wind=("wind", "mean")).round(1)
kinds = data.groupby(["location", "weather"]).size().unstack(fill_value=0)
yearly = data.groupby("location").agg(
    rain_mm_a_year=("precipitation", lambda s: round(s.sum() / years)),
    days_with_rain=("precipitation", lambda s: int((s > 0).sum())),
    hottest=("temp_max", "max"), coldest=("temp_min", "min"))
print(yearly.to_string())

fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
monthly["rain_mm"].unstack("location").plot.bar(ax=left, width=0.8)
left.set(title="Rain in an average month", xlabel="month", ylabel="mm", ylim=(0, 200))
left.legend(ncols=2, loc="upper center")
kinds.T.plot.bar(ax=right, width=0.8, rot=0)
right.set(title="Days by weather · 天気 · погода", xlabel="", ylabel="days")
fig.savefig("/mnt/data/rain.png", dpi=120)

styles = getSampleStyleSheet()


def table(frame):
    frame = frame.reset_index()
    rows = [[str(c) for c in frame.columns]] + [[str(v) for v in row] for row in frame.itertuples(index=False)]
    return Table(rows, repeatRows=1, style=TableStyle([
        ("BACKGROUND", (0, 0), (-1, 0), colors.HexColor("#1f77b4")),
        ("TEXTCOLOR", (0, 0), (-1, 0), colors.white),
        ("FONTSIZE", (0, 0), (-1, -1), 8),
        ("ALIGN", (1, 0), (-1, -1), "RIGHT"),
        ("ROWBACKGROUNDS", (0, 1), (-1, -1), [colors.white, colors.HexColor("#eef3f8")])]))


SimpleDocTemplate("/mnt/data/report.pdf", pagesize=A4, title="Weather in two cities").build([
    Paragraph("Weather in Seattle and New York, 2012–2015", styles["Title"]),
    Image("/mnt/data/rain.png", width=16.5 * cm, height=6.3 * cm), Spacer(1, 12),
    Paragraph("Over the year", styles["Heading2"]), table(yearly), Spacer(1, 12),
    Paragraph("By month", styles["Heading2"]), table(monthly)])

with pd.ExcelWriter("/mnt/data/weather.xlsx") as book:
    yearly.to_excel(book, sheet_name="years")
    monthly.to_excel(book, sheet_name="months")
    kinds.to_excel(book, sheet_name="kinds")

data.to_parquet("/mnt/data/weather.parquet")
assert pd.read_parquet("/mnt/data/weather.parquet").equals(data)
