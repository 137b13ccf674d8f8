// Elements, and numbers as text.

const SVG = "http://www.w3.org/2000/svg";

/// An HTML element with properties and children; texts are texts, never markup.
export function element(name, properties = {}, ...children) {
  return filled(document.createElement(name), properties, children);
}

/// The same for SVG.
export function drawn(name, properties = {}, ...children) {
  return filled(document.createElementNS(SVG, name), properties, children);
}

function filled(node, properties, children) {
  for (const [key, value] of Object.entries(properties)) {
    if (value !== null && value !== undefined) node.setAttribute(key, value);
  }
  node.append(...children);
  return node;
}

/// Calls `draw` when the width of an element has changed.
export function watchWidth(place, draw) {
  let width = place.clientWidth;
  const look = () => {
    if (place.clientWidth === width) return;
    width = place.clientWidth;
    draw();
  };
  // In the next frame, so that a picture which changes the size is no loop.
  new ResizeObserver(() => requestAnimationFrame(look)).observe(place);
}

/// A number in at most four digits and a letter.
export function short(number) {
  if (number === null || number === undefined) return "–";
  if (number === 0) return "0";
  for (const [unit, letter] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    // What would be rounded to 1000 of a smaller unit is 1 of this.
    if (number >= unit * 0.9995) return digits(number / unit) + letter;
  }
  if (number < 0.01) return "< 0.01";
  return Number.isInteger(number) ? String(number) : digits(number);
}

function digits(number) {
  return number >= 99.95 ? number.toFixed(0) : number >= 9.995 ? number.toFixed(1) : number.toFixed(2);
}

/// A share in percent.
export function percent(share) {
  if (share === null || share === undefined) return "–";
  const value = share * 100;
  if (value > 0 && value < 0.1) return "< 0.1 %";
  if (value > 99.9 && value < 100) return "> 99.9 %";
  return `${value.toFixed(value === 0 || value === 100 ? 0 : 1)} %`;
}

/// A time, in the unit that suits it.
export function lasting(seconds) {
  if (seconds < 1e-3) return `${short(seconds * 1e6)} µs`;
  if (seconds < 1) return `${short(seconds * 1e3)} ms`;
  if (seconds < 60) return `${seconds.toFixed(0)} s`;
  if (seconds < 3600) return `${(seconds / 60).toFixed(0)} min`;
  if (seconds < 86400) return `${(seconds / 3600).toFixed(1)} h`;
  return `${(seconds / 86400).toFixed(1)} days`;
}

/// The legend of layers; `numbers` are shown beside the names.
export function legend(place, layers, numbers) {
  const parts = layers.map((layer) => {
    const number = numbers ? element("b", {}, ` ${numbers(layer.key)}`) : "";
    const name = element("span", { title: layer.what });
    name.append(element("i", { class: `layer ${layer.key}` }), layer.name, number);
    return name;
  });
  place.replaceChildren(...parts);
}
