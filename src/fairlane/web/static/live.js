// Keeps the page of a running study up to date. All HTML in the events was escaped by the server, as the page itself was.
"use strict";
{
  const live = document.getElementById("live");
  const parts = ["progress", "intervals", "failures", "findings"];
  const shown = new Map();

  function show(state) {
    for (const name of parts) {
      const html = state[name] ?? "";
      const place = document.getElementById(name);
      // What has the focus, or a selection, would lose it: it waits for the next change.
      if (shown.get(name) !== html && !place.contains(document.activeElement)) {
        place.innerHTML = html;
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
