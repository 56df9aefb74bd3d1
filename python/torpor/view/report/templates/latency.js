// SPDX-License-Identifier: MIT OR GPL-2.0-only
// The slider of the latency figure: which share of wake-ups came within a histogram bound.

for (const figure of document.querySelectorAll("figure.latency")) {
  const data = readData(figure);
  const slider = figure.querySelector("input");
  const output = figure.querySelector("output");
  const cells = figure.querySelectorAll(".within");
  const cuts = figure.querySelectorAll(".cut");
  const update = () => {
    const at = Number(slider.value);
    output.textContent = data.texts[at];
    slider.setAttribute("aria-valuetext", data.texts[at]);
    cells.forEach((cell, row) => {
      const percent = 100 * data.rows[row][at] / data.counts[row];
      cell.textContent = percent.toFixed(1) + "\u00a0%";
    });
    cuts.forEach((cut) => { cut.style.left = data.lefts[at] + "%"; });
  };
  slider.addEventListener("input", update);
  // A browser may restore the slider's place of an earlier visit.
  update();
}
