// SPDX-License-Identifier: MIT OR GPL-2.0-only
// The strip's rows: sleeps as three arrays of the same length, in order of time.

const DEEPER = 1, SHALLOWER = 2;

/** Undo strip.py's pack(). */
const unpack = (text, stateCount, quantum, start) => {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const from = [], to = [], state = [];
  let at = 0, now = 0;
  const varint = () => {
    let value = 0, scale = 1, byte;
    do {
      byte = bytes[at++];
      value += (byte & 0x7f) * scale;
      scale *= 128;
    } while (byte & 0x80);
    return value;
  };
  while (at < bytes.length) {
    now += varint();
    const word = varint();
    from.push(start + now * quantum);
    now += Math.floor(word / stateCount);
    to.push(start + now * quantum);
    state.push(word % stateCount);
  }
  return { from, to, state, count: from.length };
};

/** Spans in which both rows sleep in different states. */
const differences = (row, oracle) => {
  const found = { from: [], to: [], state: [], count: 0 };
  let i = 0, j = 0;
  while (i < row.count && j < oracle.count) {
    const a = Math.max(row.from[i], oracle.from[j]), b = Math.min(row.to[i], oracle.to[j]);
    if (a < b && row.state[i] !== oracle.state[j]) {
      found.from.push(a);
      found.to.push(b);
      found.state.push(row.state[i] > oracle.state[j] ? DEEPER : SHALLOWER);
      found.count++;
    }
    if (row.to[i] <= oracle.to[j]) i++; else j++;
  }
  return found;
};

/** The sleep that holds time t, or -1. */
const sleepAt = (row, t) => {
  const i = firstIndex(row.count, (k) => row.to[k] > t);
  return i < row.count && row.from[i] <= t ? i : -1;
};
