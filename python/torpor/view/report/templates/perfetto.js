// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Hands the page's trace to Perfetto in a window of its own, from page to page: no server has it.

const PING_MS = 50, PATIENCE_MS = 30_000;
for (const form of document.querySelectorAll("form.perfetto")) {
  const output = form.querySelector("output");
  const unpacked = () => {
    const text = document.getElementById("trace-data").textContent;
    const packed = new Blob([Uint8Array.from(atob(text), (c) => c.charCodeAt(0))]);
    return new Response(packed.stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const { href, origin } = new URL(form.elements.address.value);
    const opened = open(href);
    if (!opened) {
      output.textContent = "The browser did not allow a new window.";
      return;
    }
    output.textContent = "Waiting for an answer from " + origin + " …";
    const buffer = unpacked(), since = Date.now();
    const stop = (text) => {
      clearInterval(timer);
      removeEventListener("message", answered);
      output.textContent = text;
    };
    // Perfetto answers once it has loaded, and nobody knows when that is.
    const timer = setInterval(() => {
      if (Date.now() - since > PATIENCE_MS || opened.closed) stop("No answer from " + origin + ".");
      else opened.postMessage("PING", origin);
    }, PING_MS);
    const answered = async (message) => {
      if (message.source !== opened || message.origin !== origin || message.data !== "PONG") return;
      stop("Handed over to " + origin + ".");
      const title = form.dataset.title;
      const perfetto = { buffer: await buffer, title, fileName: "torpor.perfetto-trace" };
      opened.postMessage({ perfetto }, origin);
    };
    addEventListener("message", answered);
  });
}
