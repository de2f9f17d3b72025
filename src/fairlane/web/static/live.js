// Keeps the page of a running study up to date. All HTML in the events was escaped by the server, as the page itself was.
"use strict";
{
  const live = document.getElementById("live");
  const parts = ["progress", "intervals", "failures", "findings"];
  const shown = new Map();

  // New content in the old place: what was scrolled stays scrolled, and what had the focus has it again.
  function fill(place, html) {
    const regions = () => [...place.querySelectorAll(".scroll, a")];
    const before = regions();
    const scrolled = before.map((region) => region.scrollLeft); // of what is taken out it is 0
    const focused = before.indexOf(document.activeElement);
    place.innerHTML = html;
    regions().forEach((region, n) => { region.scrollLeft = scrolled[n] ?? 0; });
    if (focused >= 0) regions()[focused]?.focus({ preventScroll: true });
  }

  function show(state) {
    const selection = getSelection();
    for (const name of parts) {
      const html = state[name] ?? "";
      const place = document.getElementById(name);
      const copying = !selection.isCollapsed && place.contains(selection.anchorNode); // it waits for the next change
      if (shown.get(name) !== html && !copying) {
        fill(place, html);
        shown.set(name, html);
      }
    }
    const phase = document.getElementById("phase");
    if (phase.textContent !== state.phase) {
      phase.textContent = state.phase;
      phase.className = "state " + state.phase;
    }
    document.title = state.title + " · " + live.dataset.name + " · Fairlane";
  }

  if (live?.dataset.events) {
    const source = new EventSource(live.dataset.events);
    source.addEventListener("state", (event) => show(JSON.parse(event.data)));
    source.addEventListener("end", () => source.close());
    source.addEventListener("error", () => {
      // The browser tries again by itself, unless it was turned away.
      if (source.readyState === EventSource.CLOSED) setTimeout(() => location.reload(), 15000);
    });
  }
}
