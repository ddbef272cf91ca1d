// SPDX-License-Identifier: Apache-2.0
// The rows of the latency table. The workloads are what models really run: a line, a group-by, a chart.

export const workloads = {
  print: "print(1)",
  groupby: `import pandas as pd
df = pd.DataFrame({"k": [i % 7 for i in range(10000)], "v": range(10000)})
print(int(df.groupby("k")["v"].sum().sum()))`,
  chart: `import pandas as pd, matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plt
df = pd.DataFrame({"k": [i % 7 for i in range(10000)], "v": range(10000)})
ax = df.groupby("k")["v"].mean().plot.bar()
ax.figure.savefig("chart.png", dpi=80)
print("saved")`,
  statement: "n = globals().get('n', 0) + 1",
  valueInt: "n = globals().get('n', 0) + 1\nn",
  valueStr: "'text'",
  valueTable: "import pandas as pd\npd.DataFrame({'a': [1, 2]})",
  valueFigure: "from matplotlib.figure import Figure\nf = Figure(); f.add_subplot().plot([1, 2]); f",
} as const;

export type Workload = keyof typeof workloads;

export interface LatencyRow {
  id: string;
  title: string;
  how: "again" | "fresh" | "pooled" | "stateful";
  workload: Workload;
  samples: number; // for each contender; slow contenders get a tenth, but at least 5
  pauseMs?: number; // before each sample
  budgetMs?: number; // limit of the median,
  budgetOf?: string; // of this contender instead of the first one
}

export const latencyRows: LatencyRow[] = [
  { id: "again-print", title: "print(1) in a live sandbox", how: "again", workload: "print", samples: 200, pauseMs: 20, budgetMs: 2 },
  { id: "again-again", title: "print(1) in a live sandbox, back to back", how: "again", workload: "print", samples: 200 },
  { id: "again-groupby", title: "pandas group-by in a live sandbox", how: "again", workload: "groupby", samples: 40 },
  { id: "stateful", title: "stateful statement in a live session", how: "stateful", workload: "statement", samples: 200, pauseMs: 20, budgetMs: 0.5 },
  { id: "stateful-again", title: "stateful statements back to back", how: "stateful", workload: "statement", samples: 200 },
  { id: "value-int", title: "a number as last expression in a live session", how: "stateful", workload: "valueInt", samples: 200, pauseMs: 20 },
  { id: "value-str", title: "a text as last expression in a live session", how: "stateful", workload: "valueStr", samples: 200, pauseMs: 20 },
  { id: "value-table", title: "a small DataFrame as last expression in a live session", how: "stateful", workload: "valueTable", samples: 100, pauseMs: 20 },
  { id: "value-figure", title: "a figure as last expression in a live session", how: "stateful", workload: "valueFigure", samples: 20, pauseMs: 20 },
  { id: "pool-print", title: "new sandbox from the pool, print(1)", how: "pooled", workload: "print", samples: 40, pauseMs: 150, budgetMs: 1.5 },
  { id: "fresh-print", title: "new sandbox, print(1)", how: "fresh", workload: "print", samples: 100, budgetMs: 5, budgetOf: "caisson no pool" },
  { id: "fresh-groupby", title: "new sandbox, pandas group-by", how: "fresh", workload: "groupby", samples: 30 },
  { id: "again-chart", title: "group-by + saved chart in a live sandbox", how: "again", workload: "chart", samples: 20 },
  { id: "fresh-chart", title: "new sandbox, group-by + saved chart", how: "fresh", workload: "chart", samples: 20 },
];

export const throughputClients = [1, 2, 8, 32];
export const throughputSeconds = 5;
export const growthSteps = [1, 100, 500, 1000, 2000]; // numbers of live sandboxes at which a create and a run are timed
export const pointSizesMib = [10, 100, 1000]; // memory of the sessions for checkpoints and branches
export const pointSamples = 10;
export const restSamples = 20; // number of sandboxes at rest
export const densitySteps = [1, 500, 1000, 2000, 3000]; // numbers of idle sessions
export const densitySamples = 200;
export const jobSamples = 7;
export const floorSamples = 200;
