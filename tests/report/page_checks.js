// What tests/report/test_browser.py asks a laid-out page. Each function returns a list of complaints.

function laidOver() {
  const found = [];
  for (const svg of document.querySelectorAll("svg")) {
    const box = svg.getBoundingClientRect();
    const texts = [...svg.querySelectorAll("text")].map((t) => [t.textContent, t.getBoundingClientRect()]);
    texts.forEach(([text, p], i) => {
      if (p.left < box.left - 1 || p.right > box.right + 1) found.push(`outside: ${text}`);
      for (const [other, q] of texts.slice(i + 1)) {
        const width = Math.min(p.right, q.right) - Math.max(p.left, q.left);
        const height = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
        if (width > 1 && height > 4) found.push(`${text} / ${other}`);
      }
    });
  }
  return found;
}

const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });

// Relative luminance of a CSS colour, WCAG 2.1.
function luminance(colour) {
  canvas.fillStyle = colour;
  canvas.fillRect(0, 0, 1, 1);
  const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map((v) =>
    v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4,
  );
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function background(element) {
  for (let e = element; e; e = e.parentElement) {
    const colour = getComputedStyle(e).backgroundColor;
    if (colour !== "rgba(0, 0, 0, 0)") return colour;
  }
  return "white";
}

function faintWords() {
  const found = new Set();
  for (const e of document.querySelectorAll("body *:not(title, desc)")) {
    const own = [...e.childNodes].some((n) => n.nodeType === Node.TEXT_NODE && n.data.trim());
    if (!own || !e.getClientRects().length) continue;
    const style = getComputedStyle(e);
    const a = luminance(e instanceof SVGElement ? style.fill : style.color);
    const b = luminance(background(e));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) found.add(`${e.tagName} ${ratio.toFixed(2)} ${e.textContent.trim().slice(0, 40)}`);
  }
  return [...found];
}

// Elements of the first screen that end below the window, and words smaller than 14 px.
function firstScreen() {
  const found = [];
  for (const part of ["h1", "#answer .said", "#first-figure .forest"]) {
    const box = document.querySelector(part).getBoundingClientRect();
    if (box.bottom > window.innerHeight || box.height === 0) found.push(`${part} ends at ${box.bottom}`);
  }
  for (const e of document.querySelectorAll("header *, #answer *:not(title, desc)")) {
    const own = [...e.childNodes].some((n) => n.nodeType === Node.TEXT_NODE && n.data.trim());
    const size = parseFloat(getComputedStyle(e).fontSize);
    if (own && e.getClientRects().length && size < 14) found.push(`${size} px: ${e.textContent.trim().slice(0, 40)}`);
  }
  return found;
}

// Words of the first screen that are cut off, or lie over others.
function crowded() {
  for (const e of document.querySelectorAll("#answer .unseen")) e.style.display = "none";
  const leaves = [...document.querySelectorAll("#answer p, #answer th, #answer td:not(.ci), #answer text, #answer dd")]
    .filter((e) => e.getClientRects().length && e.textContent.trim());
  const found = leaves.filter((e) => e.scrollWidth > e.clientWidth + 1 && e.clientWidth).map((e) => `cut: ${e.textContent.trim()}`);
  const boxes = leaves.map((e) => {
    const range = document.createRange();
    range.selectNodeContents(e);
    return [e.textContent.trim(), range.getBoundingClientRect()];
  });
  boxes.forEach(([text, p], i) => {
    for (const [other, q] of boxes.slice(i + 1)) {
      const width = Math.min(p.right, q.right) - Math.max(p.left, q.left);
      const height = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
      if (width > 1 && height > 4) found.push(`${text} / ${other}`);
    }
  });
  return found;
}

// Words of figures drawn smaller than 11 px, those of bars smaller than 12 px.
function smallLabels() {
  const found = new Set();
  for (const text of document.querySelectorAll("figure svg text")) {
    if (!text.getClientRects().length) continue;
    const matrix = text.getScreenCTM();
    const size = parseFloat(getComputedStyle(text).fontSize) * Math.hypot(matrix.a, matrix.b);
    const figure = text.closest("figure");
    const least = /^(bars|cpu|fall)-/.test(figure.id) ? 12 : 11;
    if (size < least - 0.05) found.add(`${size.toFixed(1)} px in ${figure.id || figure.className}: ${text.textContent.slice(0, 30)}`);
  }
  return [...found];
}

// Figures and tables that reach beyond the paper.
function cutOff() {
  return [...document.querySelectorAll("figure svg, table")]
    .filter((e) => e.getClientRects().length && e.getBoundingClientRect().right > window.innerWidth + 1)
    .map((e) => (e.closest("figure, section") || e).id);
}
