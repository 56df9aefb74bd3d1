// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Makes the tables of a sweep's page from its data, a heat map and ranks; shows the pictures of a choice.

const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const element = (name, text, attributes = {}) => {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
};
/** A row of texts and elements; the first one names it. */
const line = (cells, isHead) => {
  const made = element("tr");
  made.append(...cells.map((cell, index) => typeof cell !== "string" ? cell
    : isHead ? element("th", cell, { scope: "col" })
      : index ? element("td", cell) : element("th", cell, { scope: "row" })));
  return made;
};
const tableOf = (headings, rows) => {
  const table = element("table");
  table.append(element("thead"), element("tbody"));
  table.tHead.append(line(headings, true));
  table.tBodies[0].append(...rows.map((cells) => line(cells)));
  return table;
};
const numberText = (value) => {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e6 || size < 1e-3)) return value.toExponential(2);
  return Number(value.toPrecision(4)).toString();
};
const signed = (value, digits = 1) =>
  (value > 0 ? "+" : value < 0 ? "−" : "") + Math.abs(value).toFixed(digits);

const fill = (select, entries, chosen) => {
  entries.forEach(([value, text]) => select.append(element("option", text, { value })));
  if (chosen !== undefined) select.value = chosen;
};
const metricEntries = data.metrics.map((metric, index) => [
  index, metric.title + (metric.unit ? ", " + metric.unit : ""),
]);
const metricIndex = (keys) => {
  for (const key of keys) {
    const found = data.metrics.findIndex((metric) => metric.key === key);
    if (found >= 0) return found;
  }
  return 0;
};
fill($("metric"), metricEntries, metricIndex(data.leading));
// A page of some scenarios has sums over all of them, against the first governor.
fill($("base"), (data.is_whole ? data.governors : data.governors.slice(0, 1)).map((name, index) => [index, name]), 0);
for (const axis of data.axes) {
  const label = element("label", axis[0].toUpperCase() + axis.slice(1).replace("_", " ") + " "), select = element("select", undefined, { id: axis });
  fill(select, [["", "all"], ...[...new Set(data.scenarios.map((scenario) => scenario.at[axis]))].sort().map((name) => [name, name])], "");
  label.append(select);
  $("controls").append(label);
}
const shown = () => data.scenarios.filter((scenario) =>
  data.axes.every((axis) => !$(axis).value || scenario.at[axis] === $(axis).value));
const valueOf = (scenario, governor, metric) => scenario.cells[governor]?.[metric] ?? null;

const isShare = (metric) => data.metrics[metric].kind === "share";
const changeUnit = (metric) => isShare(metric) ? "pp" : "%";
/** From the base, in per cent, or in percentage points of a share; null where it is not known. */
const change = (scenario, governor, metric, base) => {
  const mine = valueOf(scenario, governor, metric), other = valueOf(scenario, base, metric);
  if (mine === null || other === null) return null;
  if (isShare(metric)) return mine - other;
  if (other === 0) return null;
  return 100 * (mine - other) / Math.abs(other);
};

const detail = (scenario, metric, base) => {
  const box = $("detail");
  box.replaceChildren(element("h3", scenario.label));
  const seeds = scenario.seeds ? `Means over ${scenario.seeds} seeds. ` : "";
  box.append(element("p", `${seeds}This command repeats it:`));
  const names = [...new Set(data.specs.filter((_, index) => scenario.cells[index]))];
  const quoted = names.map((name) =>
    "-g " + (/^[\w.,=@:/+-]+$/.test(name) ? name : "'" + name.replaceAll("'", "'\\''") + "'"));
  box.append(element("pre", scenario.command.replace("GOVERNORS", () => quoted.join(" "))));
  const known = metricEntries.filter(([index]) =>
    scenario.cells.some((cell) => cell && cell[index] !== null));
  const scroll = element("div", undefined, { class: "scroll" });
  scroll.append(tableOf(["metric", ...data.governors], known.map(([index, title]) =>
    [title, ...everyone.map((governor) => numberText(valueOf(scenario, governor, index)))])));
  box.append(scroll);
};

/** Rows that are drawn at once: a browser lays out thousands of cells for seconds. */
const ROWS = 200;
let rowsShown = ROWS;
/** The governor whose column orders the rows, null being their names, and which way. */
let order = { governor: null, isDown: false };
const ordered = (scenarios, metric, base) => {
  if (order.governor === null) return order.isDown ? [...scenarios].reverse() : scenarios;
  const key = (scenario) => order.governor === base
    ? valueOf(scenario, base, metric) : change(scenario, order.governor, metric, base);
  const known = scenarios.filter((scenario) => key(scenario) !== null);
  known.sort((a, b) => order.isDown ? key(b) - key(a) : key(a) - key(b));
  return [...known, ...scenarios.filter((scenario) => key(scenario) === null)];
};
const sortable = (name, governor) => {
  const isChosen = order.governor === governor;
  const head = element("th", undefined, { scope: "col" });
  if (isChosen) head.setAttribute("aria-sort", order.isDown ? "descending" : "ascending");
  // A zero-width space after each comma and equals sign: there a long name may be broken.
  const button = element("button", name.replaceAll(/[,=]/g, "$&\u200b") + (isChosen ? (order.isDown ? " ▾" : " ▴") : ""), { type: "button" });
  button.addEventListener("click", () => {
    order = { governor, isDown: isChosen ? !order.isDown : governor !== null };
    draw();
    const index = governor === null ? 0 : governor + 1;
    $("map").querySelectorAll("thead button")[index].focus();
  });
  head.append(button);
  return head;
};

const drawMap = (all, metric, base) => {
  const info = data.metrics[metric];
  const heads = [sortable("scenario", null), ...data.governors.map(sortable)];
  const scenarios = ordered(all, metric, base);
  const rows = scenarios.slice(0, rowsShown).map((scenario) => [scenario.label,
    ...data.governors.map((name, governor) => {
      const cell = element("td"), value = valueOf(scenario, governor, metric);
      const button = element("button", numberText(value), { type: "button" });
      const moved = governor === base ? null : change(scenario, governor, metric, base);
      if (moved !== null) {
        button.append(element("small", `${signed(moved)} ${changeUnit(metric)}`));
        const worse = info.direction === "higher" ? -moved : moved;
        if (info.direction !== "none" && worse !== 0) {
          cell.className = worse > 0 ? "worse" : "better";
          cell.style.setProperty("--weight", Math.min(75, 8 + 22 * Math.log10(1 + Math.abs(worse))));
        }
      }
      button.setAttribute("aria-label", `${name} in ${scenario.label}: ${button.textContent}`);
      button.addEventListener("click", () => {
        document.querySelectorAll("#map [aria-pressed]").forEach((old) => old.removeAttribute("aria-pressed"));
        button.setAttribute("aria-pressed", "true");
        detail(scenario, metric, base);
      });
      cell.append(button);
      return cell;
    })]);
  $("map").replaceChildren(tableOf(heads, rows));
  const hidden = scenarios.length - rowsShown;
  if (hidden > 0) {
    const more = element("button", `Show the other ${hidden} scenarios`, { type: "button", id: "more" });
    more.addEventListener("click", () => {
      rowsShown = Infinity;
      draw();
      $("map").querySelectorAll("tbody tr")[ROWS].querySelector("button").focus();
    });
    $("map").append(more);
  }
};

/** The base and the value of each axis that is chosen, as the page's figures and pictures are named. */
const choice = (base) =>
  base + data.axes.filter((axis) => $(axis).value).map((axis) => ` ${axis}=${$(axis).value}`).join("");
const everyone = data.governors.map((_, governor) => governor);

const showPictures = (base) => {
  const own = [...document.querySelectorAll("[data-choice]")];
  for (const pictures of own) pictures.hidden = pictures.dataset.choice !== choice(base);
  $("no-pictures").hidden = own.some((pictures) => !pictures.hidden);
};

const drawRanks = (metric, base) => {
  const info = data.metrics[metric], found = data.summaries[choice(base)]?.[metric];
  if (!found) {
    $("ranks").replaceChildren(element("p", "This page has no such figures: choose a value of one axis, " +
      "or run torpor show with --only.", { class: "none" }));
    return;
  }
  const isRanked = info.direction !== "none", lines = [...found.lines];
  const headings = ["governor", isShare(metric) ? "mean change pp" : "geomean change %", "95 %"];
  if (isRanked) {
    headings.push("mean rank", "95 %");
    lines.sort(([, , a], [, , b]) => a[0] - b[0]);
  }
  const between = ([, low, high], text) => low === null ? "–" : `${text(low)} to ${text(high)}`;
  const both = (ends, text) => [ends[0] === null ? "–" : text(ends[0]), between(ends, text)];
  const table = tableOf(headings, lines.map(([name, change, rank]) =>
    [name, ...both(change, (v) => signed(v, 2)), ...(isRanked ? both(rank, (v) => v.toFixed(2)) : [])]));
  table.prepend(element("caption", `${info.title}, ${found.count} scenarios that all finished`));
  $("ranks").replaceChildren(table);
};

const draw = () => {
  const metric = Number($("metric").value), base = Number($("base").value), scenarios = shown();
  $("definition").replaceChildren(...data.metrics[metric].definition.split("`")
    .map((text, index) => index % 2 ? element("code", text) : text));
  $("detail").replaceChildren();
  drawMap(scenarios, metric, base);
  showPictures(base);
  drawRanks(metric, base);
};
document.querySelectorAll("select").forEach((select) => select.addEventListener("change", draw));
document.querySelectorAll("form:not([method])").forEach((form) => form.addEventListener("submit", (event) => event.preventDefault()));
draw();
