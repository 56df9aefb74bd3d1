// SPDX-License-Identifier: MIT OR GPL-2.0-only
// The slider of the latency figure: which share of wake-ups came within a histogram bound.

for (const figure of document.querySelectorAll("figure.latency")) {
  const data = JSON.parse(document.getElementById(figure.dataset.source).textContent);
  const slider = figure.querySelector("input");
  const output = figure.querySelector("output");
  const cells = figure.querySelectorAll("tbody td:last-child");
  const lines = Object.entries(data.cuts).map(([name, cut]) => {
    const svg = figure.querySelector("svg." + name), line = svg.querySelector("path").cloneNode();
    line.setAttribute("class", "cut");
    svg.append(line);
    return [line, cut];
  });
  const update = () => {
    const at = Number(slider.value);
    output.textContent = data.texts[at];
    slider.setAttribute("aria-valuetext", data.texts[at]);
    cells.forEach((cell, row) => {
      const percent = 100 * data.rows[row][at] / data.counts[row];
      cell.textContent = percent.toFixed(1) + "\u00a0%";
    });
    for (const [line, cut] of lines) line.setAttribute("d", `M${cut.x[at]} ${cut.top}V${cut.bottom}`);
  };
  slider.addEventListener("input", update);
  // A browser may restore the slider's place of an earlier visit.
  update();
}
