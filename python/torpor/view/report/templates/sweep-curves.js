// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Curves of a metric over a parameter: of a governor, of a machine, of a workload.

/** The numbers after a name, each with what the name is without it. */
const paramsOf = (name) => [...name.matchAll(/,([^,=]+)=(-?[\d.]+(?:e-?\d+)?)(?=,|$)/g)]
  .map(([text, key, value]) => ({ key, value: Number(value), text, rest: name.replace(text, "") }));

/**
 * Returns the lines of each parameter with three or more values: the changes at each of its values.
 */
const curvesOf = (scenarios, metric, base) => {
  const curves = new Map();
  const add = (key, line, value, parts) => {
    if (!curves.has(key)) curves.set(key, new Map());
    const lines = curves.get(key);
    if (!lines.has(line)) lines.set(line, new Map());
    const values = lines.get(line);
    values.set(value, [...(values.get(value) ?? []), ...parts]);
  };
  data.governors.forEach((name, governor) => paramsOf(name).forEach(({ key, value, rest }) => {
    const whole = finished(scenarios, [governor, base], [metric]);
    add(`${key}, change from ${data.governors[base]}`, rest, value, changes(whole, metric, base, governor));
  }));
  // A machine's or a workload's number: each scenario against that with the least value.
  const groups = new Map();
  for (const scenario of scenarios) for (const axis of ["platform", "source"]) {
    for (const { key, value, text } of paramsOf(scenario[axis])) {
      const group = `${axis} ${key}\0${scenario.label.replace(text, "")}`;
      groups.set(group, [...(groups.get(group) ?? []), { value, scenario }]);
    }
  }
  for (const [group, several] of groups) {
    several.sort((a, b) => a.value - b.value);
    for (const governor of competitors) {
      const first = valueOf(several[0].scenario, governor, metric);
      for (const { value, scenario } of several) {
        const mine = valueOf(scenario, governor, metric);
        if (first === null || mine === null || (!isShare(metric) && !(first > 0 && mine > 0))) continue;
        const part = isShare(metric) ? mine - first : Math.log(mine / first);
        add(`${group.split("\0")[0]}, change from ${several[0].value}`, data.governors[governor], value, [part]);
      }
    }
  }
  for (const [key, lines] of curves) {
    const values = new Set([...lines.values()].flatMap((line) => [...line.keys()]));
    if (values.size < 3) curves.delete(key);
  }
  return curves;
};

const drawCurves = (scenarios, metric, base) => {
  const curves = curvesOf(scenarios, metric, base);
  $("curves").hidden = curves.size === 0;
  if (curves.size === 0) return;
  const select = $("param"), before = select.value;
  select.replaceChildren();
  fill(select, [...curves.keys()].map((key) => [key, key]), curves.has(before) ? before : [...curves.keys()][0]);
  const series = [...curves.get(select.value)].map(([line, values]) =>
    [...values].sort((a, b) => a[0] - b[0]).flatMap(([x, parts]) => {
      const [y, low, high] = interval(parts, meanChange(metric)), ends = [low ?? y, high ?? y];
      const [at, from, to] = [y, ...ends].map((end) => signed(end ?? 0, 2));
      return y === null ? [] : [{ x, y, ends, hint: `${line}, ${x}: ${at} (${from} to ${to})`, line }];
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
