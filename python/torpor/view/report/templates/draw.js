// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Helpers that the figures share.

const readData = (figure) =>
  JSON.parse(document.getElementById(figure.dataset.source).textContent);

/** As numbers.py writes durations. */
const durationText = (ns) => {
  for (const [unit, size] of [["s", 1e9], ["ms", 1e6], ["µs", 1e3]]) {
    if (Math.abs(ns) >= size) {
      const scaled = ns / size;
      return scaled.toFixed(scaled >= 100 ? 0 : scaled >= 10 ? 1 : 2) + " " + unit;
    }
  }
  return Math.round(ns) + " ns";
};

/** First index in [0, count) for which `is` holds; `is` must be false, then true. */
const firstIndex = (count, is) => {
  let low = 0, high = count;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (is(middle)) high = middle; else low = middle + 1;
  }
  return low;
};
