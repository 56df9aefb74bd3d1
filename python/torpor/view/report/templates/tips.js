// SPDX-License-Identifier: MIT OR GPL-2.0-only
// A metric's definition next to its name, on hover and on focus; Escape takes it away.

const tip = document.getElementById("tip");
const hideTip = () => { tip.hidden = true; };
const showTip = (term) => {
  tip.textContent = document.getElementById(term.getAttribute("aria-describedby")).textContent;
  tip.hidden = false;
  const box = term.getBoundingClientRect();
  const left = Math.min(box.left, document.documentElement.clientWidth - tip.offsetWidth - 8);
  tip.style.left = Math.max(left, 8) + scrollX + "px";
  tip.style.top = box.bottom + scrollY + 6 + "px";
};
for (const term of document.querySelectorAll("a.term")) {
  term.addEventListener("mouseenter", () => showTip(term));
  term.addEventListener("focus", () => showTip(term));
  term.addEventListener("mouseleave", hideTip);
  term.addEventListener("blur", hideTip);
}
addEventListener("keydown", (event) => { if (event.key === "Escape") hideTip(); });
