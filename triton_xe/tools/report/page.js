const all = line => document.querySelectorAll(`[data-l="${line}"]`);
let hot = "";
function light(line) {
  if (line === hot) return;
  all(hot).forEach(e => e.classList.remove("hot"));
  all(hot = line).forEach(e => e.classList.add("hot"));
}
const lineOf = event => event.target.closest?.("[data-l]")?.dataset.l ?? "";
document.addEventListener("mouseover", event => light(lineOf(event)));
document.addEventListener("click", event => {
  const line = lineOf(event), from = event.target.closest(".pane");
  if (!line) return;
  for (const pane of document.querySelectorAll(".pane")) {
    if (pane === from) continue;
    const there = [...pane.querySelectorAll(`[data-l="${line}"]`)].find(e => e.offsetParent);
    if (there) pane.scrollTop += there.getBoundingClientRect().top
      - pane.getBoundingClientRect().top - pane.clientHeight / 3;
  }
});
function show(name) {
  for (const e of document.querySelectorAll(".stage"))
    e.classList.toggle("shown", e.id === `stage-${name}`);
  for (const e of document.querySelectorAll(".tabs button"))
    e.setAttribute("aria-selected", e.dataset.stage === name);
}
document.querySelectorAll(".tabs button").forEach(
  button => button.addEventListener("click", () => show(button.dataset.stage)));
show(document.querySelector(".tabs button").dataset.stage);
