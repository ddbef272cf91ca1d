// SPDX-License-Identifier: Apache-2.0
// Draws one logarithmic bar chart as SVG, without a library: rectangles and texts.
import type { LatencyRow } from "./rows.ts";

const colours = ["#1b7f5c", "#7fc4a6", "#9a9a9a", "#d99a3d", "#3d74d9", "#8a5bd1"];
const escape = (s: string) => s.replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]!);

export function barChart(rows: LatencyRow[], peers: string[], median: (row: string, peer: string) => number | null): string {
  const left = 300, width = 900, barHeight = 13, gap = 16, top = 60;
  const all = rows.flatMap((r) => peers.map((p) => median(r.id, p)).filter((v): v is number => v !== null));
  const low = Math.floor(Math.log10(Math.min(...all))), high = Math.ceil(Math.log10(Math.max(...all)));
  const x = (v: number) => left + ((Math.log10(v) - low) / (high - low)) * (width - left - 90);
  const parts: string[] = [];
  let y = top;
  for (const row of rows) {
    const shown = peers.filter((p) => median(row.id, p) !== null);
    parts.push(`<text x="${left - 12}" y="${y + (shown.length * barHeight) / 2 + 4}" text-anchor="end">${escape(row.title)}</text>`);
    for (const peer of shown) {
      const v = median(row.id, peer)!;
      parts.push(`<rect x="${left}" y="${y}" width="${Math.max(2, x(v) - left).toFixed(1)}" height="${barHeight - 2}" fill="${colours[peers.indexOf(peer) % colours.length]}"/>`);
      parts.push(`<text x="${(x(v) + 6).toFixed(1)}" y="${y + barHeight - 4}" font-size="10">${v < 10 ? v.toFixed(2) : v.toFixed(0)} ms</text>`);
      y += barHeight;
    }
    y += gap;
  }
  const height = y + 20;
  const grid = Array.from({ length: high - low + 1 }, (_, i) => 10 ** (low + i)).map(
    (v) => `<line x1="${x(v)}" x2="${x(v)}" y1="${top - 8}" y2="${y}" stroke="#ddd"/><text x="${x(v)}" y="${top - 14}" text-anchor="middle" font-size="10" fill="#666">${v} ms</text>`,
  );
  const legend = peers.map(
    (p, i) => `<rect x="${left + i * 120}" y="12" width="11" height="11" fill="${colours[i % colours.length]}"/><text x="${left + i * 120 + 16}" y="22">${escape(p)}</text>`,
  );
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>${grid.join("")}${legend.join("")}${parts.join("")}</svg>\n`;
}

export interface Line { title: string; points: [x: number, y: number][] }

// Lines over one axis of numbers from 0; the vertical axis is logarithmic.
export function lineChart(axis: string, lines: Line[]): string {
  const left = 60, right = 620, top = 40 + 18 * lines.length, bottom = top + 260;
  const xs = lines.flatMap((l) => l.points.map((p) => p[0])), ys = lines.flatMap((l) => l.points.map((p) => p[1])).filter((y) => y > 0);
  if (ys.length === 0) return "";
  const low = Math.floor(Math.log10(Math.min(...ys))), high = Math.max(low + 1, Math.ceil(Math.log10(Math.max(...ys))));
  const x = (v: number) => left + (v / Math.max(...xs)) * (right - left);
  const y = (v: number) => bottom - ((Math.log10(Math.max(v, 10 ** low)) - low) / (high - low)) * (bottom - top);
  const grid = Array.from({ length: high - low + 1 }, (_, i) => 10 ** (low + i)).map((v) => `<line x1="${left}" x2="${right}" y1="${y(v)}" y2="${y(v)}" stroke="#ddd"/><text x="${left - 8}" y="${y(v) + 4}" text-anchor="end">${v}</text>`);
  const ticks = [...new Set(xs)].map((v) => `<text x="${x(v)}" y="${bottom + 16}" text-anchor="middle">${v}</text>`);
  const drawn = lines.map((l, i) => {
    const points = l.points.map(([a, b]) => `${x(a).toFixed(1)},${y(b).toFixed(1)}`);
    const dots = points.map((p) => `<circle cx="${p.split(",")[0]}" cy="${p.split(",")[1]}" r="3" fill="${colours[i]}"/>`).join("");
    return `<polyline points="${points.join(" ")}" fill="none" stroke="${colours[i]}" stroke-width="2"/>${dots}<rect x="${left}" y="${14 + 18 * i}" width="11" height="11" fill="${colours[i]}"/><text x="${left + 17}" y="${24 + 18 * i}">${escape(l.title)}</text>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" width="680" height="${bottom + 44}" font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>${grid.join("")}${ticks.join("")}<text x="${(left + right) / 2}" y="${bottom + 34}" text-anchor="middle">${escape(axis)}</text>${drawn.join("")}</svg>\n`;
}
