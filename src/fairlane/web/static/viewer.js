// Keeps pages up to date: asks for their JSON every few seconds, while they are looked at. Everything can be read
// without it. All HTML in the answers was escaped by the server, as the page itself was.
"use strict";
{
  // Calls show(answer) with what has changed, until it returns false.
  function poll(address, show) {
    let tag = "";
    async function ask() {
      let again = 15; // seconds, after an error or where the server is busy
      try {
        const answer = await fetch(address, { headers: tag ? { "If-None-Match": tag } : {}, cache: "no-store" });
        if (answer.status === 304) again = every;
        if (answer.ok) {
          tag = answer.headers.get("ETag") ?? "";
          const state = await answer.json();
          again = every = state.every;
          if (show(state) === false) return;
        }
      } catch { /* the server is not there: it may come back */ }
      setTimeout(whenSeen, again * 1000);
    }
    function whenSeen() {
      if (!document.hidden) { ask(); return; }
      document.addEventListener("visibilitychange", whenSeen, { once: true });
    }
    let every = 2;
    whenSeen();
  }

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

  const shown = new Map();
  function renew(place, html) {
    const selection = getSelection();
    const copying = !selection.isCollapsed && place.contains(selection.anchorNode); // it waits for the next change
    if (shown.get(place) === html || copying) return;
    fill(place, html);
    shown.set(place, html);
  }

  const live = document.getElementById("live");
  if (live?.dataset.state) {
    poll(live.dataset.state, (state) => {
      if (!state.phase) return true; // nothing is read yet
      for (const [name, html] of Object.entries(state.html)) renew(document.getElementById(name), html);
      const phase = document.getElementById("phase");
      if (phase.textContent !== state.phase) {
        phase.textContent = state.phase;
        phase.className = "state " + state.phase;
        if (state.phase !== "interrupted") document.querySelectorAll("header .incomplete").forEach((mark) => mark.remove());
      }
      document.title = state.title + " · " + live.dataset.name + " · Fairlane";
      return !state.final;
    });
  }

  const list = document.querySelector(".runs");
  if (list) {
    const places = new Map([...list.children].map((run) => [run.dataset.name, run.querySelector(".about")]));
    poll(list.dataset.state, (state) => {
      for (const run of state.runs) if (places.has(run.name)) renew(places.get(run.name), run.html);
      document.getElementById("renewed").hidden =
        state.runs.length === places.size && state.runs.every((run) => places.has(run.name));
    });
    const picked = document.getElementById("picked");
    const advice = picked.textContent;
    list.addEventListener("change", () => {
      const names = [...list.querySelectorAll("input:checked")].map((box) => box.closest(".run").dataset.name);
      picked.textContent = names.length ? names.join(", ") + (names.length < 2 ? ": tick another one" : "") : advice;
    });
  }
}
