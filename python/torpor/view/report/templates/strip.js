// SPDX-License-Identifier: MIT OR GPL-2.0-only
// The strip: rows of sleeps on a canvas that zooms and pans. Times are ns from the first CPU's start.

const LABEL_PX = 17, LANE_PX = 24, MARK_PX = 9, ORACLE_PX = 10, GAP_PX = 10, AXIS_PX = 24;
// Wheel events of a page scroll that merely passes over the strip belong to the page.
const SCROLL_GESTURE_MS = 350;
let lastWheelElsewhere = -Infinity;
addEventListener("wheel", (event) => {
  if (!(event.target instanceof HTMLCanvasElement)) lastWheelElsewhere = event.timeStamp;
}, { passive: true, capture: true });

const makeStrip = (figure) => {
  const whole = readData(figure);
  const canvas = figure.querySelector("canvas");
  const output = figure.querySelector("output");
  const spoken = figure.querySelector("[aria-live]");
  const select = figure.querySelector("select");
  const heading = document.querySelector(`#${figure.getAttribute("aria-labelledby")} .chosen`);
  const view = { from: 0, to: 0 };
  let cursor = null, chosen = 0, width = 0, colours = null, queued = false;
  // Data of the CPU that is shown.
  let data, swatches, stateCount, rows, oracle, closest, height;

  const rowHeight = (row) =>
    LABEL_PX + LANE_PX + (row.marks ? MARK_PX + ORACLE_PX : 0) + GAP_PX;
  /** The strip of a CPU, by its place in the data. */
  const take = (index) => {
    const cpu = whole.cpus[index];
    const states = whole.clusters[cpu.cluster].states;
    data = { ...cpu, index, states };
    stateCount = states.length;
    rows = whole.governors.map((name, row) => ({
      name, ...unpack(cpu.rows[row], stateCount, cpu.quantum, cpu.start),
    }));
    oracle = rows[whole.oracle];
    for (const row of rows) row.marks = oracle && row !== oracle ? differences(row, oracle) : null;
    closest = Math.min(data.end, Math.max(2000, 20 * data.quantum));
    height = rows.reduce((sum, row) => sum + rowHeight(row), AXIS_PX);
    canvas.style.height = height + "px";
    for (const key of figure.querySelectorAll("[data-cluster]")) {
      key.hidden = Number(key.dataset.cluster) !== cpu.cluster;
    }
    for (const own of figure.querySelectorAll("[data-of]")) {
      own.hidden = Number(own.dataset.of) !== index;
    }
    swatches = [...figure.querySelectorAll(`[data-cluster="${cpu.cluster}"] [data-state]`)];
    colours = null;
    heading.textContent = cpu.name;
    canvas.setAttribute("aria-label", `Idle states over time on CPU ${cpu.name}, one row for each of `
      + whole.governors.join(", "));
    if (select) select.value = index;
  };

  const readColours = () => {
    const style = getComputedStyle(figure);
    colours = { states: swatches.map((s) => getComputedStyle(s).getPropertyValue("--fill")),
      inks: swatches.map((s) => getComputedStyle(s).getPropertyValue("--ink")) };
    for (const name of ["paper", "ink", "muted", "rule", "strong", "link", "above", "below", "wash"]) {
      colours[name] = style.getPropertyValue("--" + name);
    }
    colours.font = style.fontFamily;
  };
  const xOf = (t) => (t - view.from) / (view.to - view.from) * width;
  const tOf = (x) => view.from + x / width * (view.to - view.from);

  /** Draw `row`'s visible items: wide ones by `block`, the rest as pixel columns by `column`. */
  const sweep = (row, kinds, block, column) => {
    const sums = new Float64Array(Math.ceil(width) * kinds);
    let anyNarrow = false;
    for (let i = firstIndex(row.count, (k) => row.to[k] > view.from);
      i < row.count && row.from[i] < view.to; i++) {
      const a = Math.max(xOf(row.from[i]), 0), b = Math.min(xOf(row.to[i]), width);
      if (b - a >= 3) {
        block(a, b, row.state[i]);
        continue;
      }
      anyNarrow = true;
      for (let x = Math.floor(a); x < Math.min(Math.ceil(b), Math.ceil(width)); x++) {
        sums[x * kinds + row.state[i]] += Math.min(b, x + 1) - Math.max(a, x);
      }
    }
    if (!anyNarrow) return;
    for (let x = 0; x < width; x++) {
      const part = sums.subarray(x * kinds, (x + 1) * kinds);
      if (part.some((v) => v > 0)) column(x, part);
    }
  };

  const drawLane = (g, row, top, laneHeight, named) => {
    const depth = (state) => Math.max(3, laneHeight * (state + 1) / stateCount);
    g.fillStyle = colours.wash;
    const left = Math.max(0, xOf(data.start));
    g.fillRect(left, top, Math.max(0, xOf(data.end) - left), laneHeight);
    sweep(row, stateCount, (a, b, state) => {
      g.fillStyle = colours.states[state];
      g.fillRect(a, top, Math.max(b - a - 0.5, 1), depth(state));
      const name = data.states[state].name;
      if (named && depth(state) >= 11 && b - a > g.measureText(name).width + 8) {
        g.fillStyle = colours.inks[state];
        g.fillText(name, a + 4, top + depth(state) / 2 + 4);
      }
    }, (x, part) => {
      let most = 0, mean = 0;
      part.forEach((v, state) => {
        mean += v * depth(state);
        if (v > part[most]) most = state;
      });
      g.fillStyle = colours.states[most];
      g.fillRect(x, top, 1, Math.max(mean, 1));
    });
  };

  const drawMarks = (g, row, top) => {
    const middle = top + MARK_PX / 2;
    const triangle = (x, direction) => {
      g.beginPath();
      g.moveTo(x - 3.5, middle - 3 * direction);
      g.lineTo(x + 3.5, middle - 3 * direction);
      g.lineTo(x, middle + 3 * direction);
      g.fill();
    };
    sweep(row.marks, 3, (a, b, kind) => {
      g.fillStyle = kind === DEEPER ? colours.above : colours.below;
      g.fillRect(a, kind === DEEPER ? middle + 0.5 : middle - 2.5, b - a, 2);
      if (b - a >= 9) triangle((a + b) / 2, kind === DEEPER ? 1 : -1);
    }, (x, part) => {
      const half = MARK_PX / 2 - 0.5;
      g.fillStyle = colours.above;
      if (part[DEEPER]) g.fillRect(x, middle, 1, Math.max(1, half * part[DEEPER]));
      g.fillStyle = colours.below;
      const up = part[SHALLOWER] ? Math.max(1, half * part[SHALLOWER]) : 0;
      g.fillRect(x, middle - up, 1, up);
    });
  };

  /** Returns the state of `row` at the cursor, as words. */
  const words = (row) => {
    if (cursor < data.start) return "not replayed";
    const i = sleepAt(row, cursor);
    if (i < 0) {
      const next = firstIndex(row.count, (k) => row.from[k] > cursor);
      const from = next ? row.to[next - 1] : data.start;
      const to = next < row.count ? row.from[next] : data.end;
      return "running " + durationText(to - from);
    }
    const cut = row.to[i] >= data.end ? "at least " : "";
    let text = `${data.states[row.state[i]].name} ${cut}${durationText(row.to[i] - row.from[i])}`;
    const other = row.marks ? sleepAt(oracle, cursor) : -1;
    if (other >= 0) {
      const [mine, its] = [row.state[i], oracle.state[other]];
      text += mine === its ? ", as the oracle"
        : `, ${mine > its ? "deeper" : "shallower"} than the oracle's ${data.states[its].name}`;
    }
    return text;
  };

  const clipped = (g, text, limit) => {
    if (g.measureText(text).width <= limit) return text;
    let keep = text.length;
    while (keep > 1 && g.measureText(text.slice(0, keep) + "…").width > limit) keep--;
    return text.slice(0, keep) + "…";
  };

  const drawAxis = (g, top) => {
    const span = view.to - view.from;
    const raw = span / Math.max(2, Math.floor(width / 110));
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((k) => k * power).find((s) => s >= raw);
    const [unit, size] = step >= 1e8 ? ["s", 1e9] : step >= 1e5 ? ["ms", 1e6] : ["µs", 1e3];
    const digits = Math.max(0, -Math.floor(Math.log10(step / size) + 1e-9));
    g.fillStyle = colours.muted;
    for (let t = Math.ceil(view.from / step) * step; t <= view.to; t += step) {
      const text = (t / size).toFixed(digits) + " " + unit;
      g.fillRect(xOf(t), top, 1, 4);
      const x = Math.min(Math.max(xOf(t) - g.measureText(text).width / 2, 0),
        width - g.measureText(text).width);
      g.fillText(text, x, top + 15);
    }
    // Which part of the whole is in view.
    g.fillStyle = colours.rule;
    g.fillRect(0, top + 20, width, 2);
    g.fillStyle = colours.link;
    const left = view.from / data.end * width;
    g.fillRect(left, top + 19, Math.max(3, span / data.end * width), 4);
  };

  const draw = () => {
    queued = false;
    width = canvas.clientWidth;
    if (!width) return;
    const ratio = Math.max(1, devicePixelRatio || 1);
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    if (!colours) readColours();
    const g = canvas.getContext("2d");
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.fillStyle = colours.paper;
    g.fillRect(0, 0, width, height);
    let top = 0;
    rows.forEach((row, index) => {
      g.font = `600 12px ${colours.font}`;
      g.fillStyle = colours.ink;
      const name = clipped(g, (index === chosen ? "▸ " : "") + row.name, width / 2);
      g.fillText(name, 0, top + 12);
      if (cursor !== null) {
        const left = g.measureText(name).width + 10;
        g.font = `12px ${colours.font}`;
        g.fillText(clipped(g, words(row), width - left), left, top + 12);
      }
      g.font = `11px ${colours.font}`;
      let y = top + LABEL_PX;
      drawLane(g, row, y, LANE_PX, true);
      if (row.marks) {
        y += LANE_PX;
        drawMarks(g, row, y);
        drawLane(g, oracle, y + MARK_PX, ORACLE_PX, false);
      }
      if (cursor !== null) {
        g.fillStyle = colours.ink;
        g.fillRect(xOf(cursor), top + LABEL_PX, 1, rowHeight(row) - LABEL_PX - GAP_PX);
      }
      top += rowHeight(row);
    });
    g.font = `11px ${colours.font}`;
    drawAxis(g, top);
    canvas.dataset.from = view.from;
    canvas.dataset.to = view.to;
    const place = cursor === null
      ? `in view: ${durationText(view.to - view.from)} of ${durationText(data.end)}`
      : `at ${(cursor / 1e9).toFixed(6)} s, ${rows[chosen].name}: ${words(rows[chosen])}`;
    output.textContent = place;
  };
  const redraw = () => {
    if (!queued) {
      queued = true;
      requestAnimationFrame(draw);
    }
  };
  const look = (from, to) => {
    const span = Math.min(Math.max(to - from, closest), data.end);
    // Keep the middle where the span had to change.
    const start = from + (to - from - span) / 2;
    view.from = Math.min(Math.max(start, 0), data.end - span);
    view.to = view.from + span;
    redraw();
  };
  const zoom = (factor, about) => {
    const span = (view.to - view.from) * factor;
    if (span < closest) factor = closest / (view.to - view.from);
    look(about - (about - view.from) * factor, about + (view.to - about) * factor);
  };
  const pan = (part) => {
    const by = (view.to - view.from) * part;
    look(view.from + by, view.to + by);
  };
  const middle = () => cursor !== null && cursor >= view.from && cursor <= view.to
    ? cursor : (view.from + view.to) / 2;
  const centreOn = (from, to, margin) => {
    const span = Math.min(view.to - view.from, Math.max((to - from) * margin, closest));
    cursor = (from + to) / 2;
    look(cursor - span / 2, cursor + span / 2);
  };
  /** To the next (+1) or previous (-1) item of `list` beside the cursor. */
  const step = (list, direction, margin) => {
    if (!list || !list.count) return;
    const now = cursor === null ? view.from : cursor;
    const i = direction > 0
      ? firstIndex(list.count, (k) => list.from[k] > now)
      : firstIndex(list.count, (k) => list.to[k] >= now) - 1;
    if (i >= 0 && i < list.count) centreOn(list.from[i], list.to[i], margin);
  };
  /** Another CPU at the same time, or the whole of it if the whole was in view. */
  const show = (index) => {
    const isWhole = data === undefined || view.to - view.from >= data.end;
    take(index);
    if (isWhole) look(0, data.end);
    else look(view.from, view.to);
  };
  const nextCpu = (by) => {
    if (!select) return;
    const { options, selectedIndex } = select;
    show(Number(options[(selectedIndex + by + options.length) % options.length].value));
  };
  const withMarks = () => rows[chosen].marks || (rows.find((row) => row.marks) || {}).marks;
  const actions = {
    in: () => zoom(1 / 2, middle()),
    out: () => zoom(2, middle()),
    left: () => pan(-0.25),
    right: () => pan(0.25),
    next: () => step(withMarks(), 1, 12),
    previous: () => step(withMarks(), -1, 12),
    sleepNext: () => step(rows[chosen], 1, 12),
    sleepPrevious: () => step(rows[chosen], -1, 12),
    up: () => { chosen = Math.max(chosen - 1, 0); redraw(); },
    down: () => { chosen = Math.min(chosen + 1, rows.length - 1); redraw(); },
    cpuNext: () => nextCpu(1),
    cpuPrevious: () => nextCpu(-1),
    reset: () => { cursor = null; look(0, data.end); },
  };
  const keys = {
    "+": "in", "=": "in", "-": "out", "_": "out", ArrowLeft: "left", ArrowRight: "right",
    ArrowUp: "up", ArrowDown: "down", ".": "sleepNext", ",": "sleepPrevious", n: "next",
    p: "previous", c: "cpuNext", C: "cpuPrevious", 0: "reset", Home: "reset",
  };
  for (const button of figure.querySelectorAll("[data-do]")) {
    button.addEventListener("click", () => actions[button.dataset.do]());
  }
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in keys)) return;
    event.preventDefault();
    actions[keys[event.key]]();
    const onCpu = event.key === "c" || event.key === "C" ? `CPU ${data.name}, ` : "";
    spoken.textContent = onCpu + (cursor === null ? `${rows[chosen].name} chosen`
      : `${rows[chosen].name}: ${words(rows[chosen])}`);
  });
  if (select) select.addEventListener("change", () => show(Number(select.value)));
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && event.timeStamp - lastWheelElsewhere < SCROLL_GESTURE_MS) {
      lastWheelElsewhere = event.timeStamp;
      return;
    }
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      pan(event.deltaX / width);
      return;
    }
    const isWhole = view.to - view.from >= data.end;
    // Nothing left to zoom out of: the wheel scrolls the page.
    if (event.deltaY > 0 && isWhole && !event.ctrlKey) return;
    event.preventDefault();
    const lines = event.deltaMode === 1 ? 30 : 1;
    zoom(Math.exp(Math.min(Math.max(event.deltaY * lines, -300), 300) / 400), tOf(event.offsetX));
  }, { passive: false });

  // Pointers: one drags, two pinch; a tap chooses a row.
  const held = new Map();
  let moved = false;
  const rowAt = (y) => {
    let top = 0;
    for (let i = 0; i < rows.length; i++) {
      top += rowHeight(rows[i]);
      if (y < top) return i;
    }
    return rows.length - 1;
  };
  canvas.addEventListener("pointerdown", (event) => {
    held.set(event.pointerId, event.offsetX);
    moved = false;
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    const before = held.get(event.pointerId);
    if (before === undefined) {
      cursor = tOf(event.offsetX);
      chosen = rowAt(event.offsetY);
      redraw();
      return;
    }
    const others = [...held].filter(([id]) => id !== event.pointerId).map(([, x]) => x);
    if (others.length) {
      const about = tOf(others[0]);
      const old = Math.abs(before - others[0]), now = Math.abs(event.offsetX - others[0]);
      if (old > 4 && now > 4) zoom(old / now, about);
    } else if (Math.abs(event.offsetX - before) > 0) {
      pan((before - event.offsetX) / width);
    }
    moved = moved || Math.abs(event.offsetX - before) > 1;
    held.set(event.pointerId, event.offsetX);
  });
  const release = (event) => {
    if (held.delete(event.pointerId) && !moved && event.type === "pointerup") {
      cursor = tOf(event.offsetX);
      chosen = rowAt(event.offsetY);
      redraw();
    }
  };
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("pointerleave", (event) => {
    if (event.pointerType === "mouse" && !held.size) {
      cursor = null;
      redraw();
    }
  });

  const recolour = () => { colours = null; draw(); };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour);
  matchMedia("print").addEventListener("change", recolour);
  // A browser that goes back to the page keeps what was selected.
  show(select ? Number(select.value) : 0);
  new ResizeObserver(redraw).observe(canvas);
};
document.querySelectorAll("figure.strip").forEach(makeStrip);
