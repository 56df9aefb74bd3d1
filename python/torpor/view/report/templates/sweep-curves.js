// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Curves of a metric over a parameter: of a governor, of a machine, of a workload.

const drawCurves = (metric, base) => {
  const curves = new Map(Object.entries(summary(metric, base)?.curves ?? {}));
  $("curves").hidden = curves.size === 0;
  if (curves.size === 0) return;
  const select = $("param"), before = select.value;
  select.replaceChildren();
  fill(select, [...curves.keys()].map((key) => [key, key]), curves.has(before) ? before : [...curves.keys()][0]);
  const series = Object.entries(curves.get(select.value)).map(([line, values]) =>
    values.map(([x, y, low, high]) => {
      const ends = [low ?? y, high ?? y];
      const [at, from, to] = [y, ...ends].map((end) => signed(end, 2));
      return { x, y, ends, hint: `${line}, ${x}: ${at} (${from} to ${to})`, line };
    })).filter((points) => points.length);
  if (!series.length) {
    $("curve").replaceChildren(element("p", "No scenario has this metric.", { class: "none" }));
    return;
  }
  for (const points of series) points.at(-1).label = points[0].line;
  const up = `${data.metrics[metric].title}, ${changeUnit(metric)}`;
  drawChart($("curve"), {
    title: `${up}, at each value of ${select.value}`, across: select.value.split(",")[0], up, series,
    xText: (tick, digits) => tick.toFixed(digits),
  });
};
