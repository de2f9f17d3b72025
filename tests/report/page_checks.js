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
