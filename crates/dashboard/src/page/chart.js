// Shares of lookups by layer over time, with marks where the rules changed.

import { drawn, legend, percent, watchWidth } from "./draw.js";
import { LAYERS } from "./rates.js";

/// How much time is shown.
const WINDOW_S = 300;
const KEPT_AS = "thalweg-history";
const HEIGHT = 220;
const MARGIN = { top: 22, right: 8, bottom: 22, left: 46 };
/// Marks nearer to each other than this have one label.
const LABEL_WIDTH = 40;

export class HitChart {
  constructor(place, legendPlace) {
    this.place = place;
    this.legendPlace = legendPlace;
    this.samples = kept();
    watchWidth(place, () => this.draw());
  }

  /// Adds what happened until `live`; without `rates`, another switch begins.
  add(live, rates) {
    const last = this.samples.at(-1);
    if (last && (live.seconds < last.at || live.version < last.version)) this.samples = [];
    if (rates) {
      const { seconds: at, version } = live;
      this.samples.push({ at, version, shares: rates.shares, span: rates.seconds });
    }
    const from = live.seconds - WINDOW_S;
    this.samples = this.samples.filter((sample) => sample.at >= from);
    keep(this.samples);
    this.draw();
  }

  draw() {
    const width = this.place.clientWidth;
    const last = this.samples.at(-1);
    legend(this.legendPlace, LAYERS, (key) => percent(last?.shares?.[key]));
    if (width === 0) return;
    const right = width - MARGIN.right;
    const now = last?.at ?? 0;
    const x = (at) => right - ((now - at) / WINDOW_S) * (right - MARGIN.left);
    const y = (share) => HEIGHT - MARGIN.bottom - share * (HEIGHT - MARGIN.top - MARGIN.bottom);
    const picture = drawn("svg", {
      width, height: HEIGHT, role: "img", "aria-label": this.spoken(last),
    });
    picture.append(...areas(this.samples, x, y), ...grid(x, y, now, right), ...this.marks(x));
    this.place.replaceChildren(picture);
  }

  marks(x) {
    const marks = [];
    let labelled = -Infinity;
    this.samples.forEach((sample, index) => {
      const before = this.samples[index - 1];
      if (!before || before.version === sample.version) return;
      const at = x(sample.at);
      const title = drawn("title", {}, `version ${before.version} to ${sample.version}`);
      marks.push(drawn("line", {
        class: "mark", x1: at, x2: at, y1: MARGIN.top - 4, y2: HEIGHT - MARGIN.bottom,
      }, title));
      if (at - labelled > LABEL_WIDTH) {
        labelled = at;
        const anchor = at < MARGIN.left + LABEL_WIDTH / 2 ? "start" : "middle";
        const place = { x: Math.min(at, x(this.samples.at(-1).at) - 14), y: 13 };
        marks.push(drawn("text", { ...place, "text-anchor": anchor }, `v${sample.version}`));
      }
    });
    return marks;
  }

  spoken(last) {
    const shares = last?.shares;
    if (!shares) return "No packets now";
    const parts = LAYERS.map(({ key, name }) => `${name} ${percent(shares[key])}`);
    return `Lookups now: ${parts.join(", ")}`;
  }
}

/// A shape for each layer and each stretch of time with packets.
function areas(samples, x, y) {
  const stretches = [];
  let stretch = [];
  for (const sample of samples) {
    const before = stretch.at(-1);
    const isGap = before && sample.at - before.at > sample.span + 2;
    if (!sample.shares || isGap) {
      if (stretch.length > 0) stretches.push(stretch);
      stretch = [];
    }
    if (sample.shares) stretch.push(sample);
  }
  if (stretch.length > 0) stretches.push(stretch);
  return stretches.flatMap((part) => {
    const first = { ...part[0], at: part[0].at - part[0].span };
    const points = [first, ...part];
    const below = points.map(() => 0);
    return LAYERS.map(({ key }) => {
      const lower = points.map((sample, index) => `${x(sample.at)},${y(below[index])}`);
      points.forEach((sample, index) => (below[index] += sample.shares[key]));
      const upper = points.map((sample, index) => `${x(sample.at)},${y(below[index])}`);
      const outline = [...upper, ...lower.reverse()].join(" ");
      return drawn("polygon", { class: `area ${key}`, points: outline });
    });
  });
}

function grid(x, y, now, right) {
  const shares = [0, 0.25, 0.5, 0.75, 1].flatMap((share) => [
    drawn("line", { class: "grid", x1: MARGIN.left, x2: right, y1: y(share), y2: y(share) }),
    drawn("text", {
      class: "faint", x: MARGIN.left - 6, y: y(share) + 4, "text-anchor": "end",
    }, `${share * 100} %`),
  ]);
  const shown = right < 480 ? [5, 3, 1, 0] : [5, 4, 3, 2, 1, 0];
  const minutes = shown.map((minute) => {
    const anchor = minute === 5 ? "start" : minute === 0 ? "end" : "middle";
    const place = { x: x(now - minute * 60), y: HEIGHT - 5, "text-anchor": anchor };
    return drawn("text", { class: "faint", ...place }, minute ? `−${minute} min` : "now");
  });
  return [...shares, ...minutes];
}

/// The samples of this tab before it was loaded again.
function kept() {
  try {
    const samples = JSON.parse(sessionStorage.getItem(KEPT_AS) ?? "[]");
    return Array.isArray(samples) ? samples : [];
  } catch {
    return [];
  }
}

function keep(samples) {
  try {
    sessionStorage.setItem(KEPT_AS, JSON.stringify(samples));
  } catch {
    // A browser without room for it forgets.
  }
}
