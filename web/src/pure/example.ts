// SPDX-License-Identifier: Apache-2.0
/** What the button of the empty home page runs: text, a table and a chart. */
export const exampleCode = `import numpy as np
import pandas as pd
import matplotlib.pyplot as plt

# Two years of sales in four shops, made up
rng = np.random.default_rng(7)
months = pd.date_range("2024-01-01", periods=24, freq="MS")
season = 1 + 0.3 * np.sin(np.arange(24) / 12 * 2 * np.pi)
sales = pd.DataFrame({shop: level * season + rng.normal(0, 6, 24).cumsum()
                      for shop, level in {"North": 120, "East": 95, "South": 140, "West": 70}.items()}, index=months)

print(sales.describe().round(1).to_string())
ax = sales.plot(figsize=(9, 4.2), linewidth=2, title="Sales by month")
ax.set_ylabel("thousand")
ax.spines[["top", "right"]].set_visible(False)
plt.tight_layout()
sales.to_csv("sales.csv", index_label="month")
`;
