// Asks the switch and shows what it says.

import { ask, repeat } from "./ask.js";
import { HitChart } from "./chart.js";
import { element, lasting, percent, short } from "./draw.js";
import { ExplainBox } from "./explain.js";
import { TableGraph } from "./graph.js";
import { List } from "./lists.js";
import { rates, sum } from "./rates.js";

const LIVE_MS = 1_000;
const ENTRIES_MS = 3_000;
/// Answers that may fail before the page says so.
const FAILURES = 2;

const at = (id) => document.getElementById(id);
const state = { live: null, rates: null, entries: null, talkers: new Map(), failures: new Map() };
let isPaused = false;
let isLinkDone = false;

const chart = new HitChart(at("answers"), at("answers-legend"));
const explain = new ExplainBox(at("explain"), at("explained"));
const number = (title, text) => ({ title, text, kind: "number" });

const drops = new List(at("drops"), [
  { title: "Reason", text: (row) => row.reason, detail: (row) => row.detail },
  number("Total", (row) => short(row.count)),
  number("/s", (row) => short(row.rate)),
  {
    title: "", button: "Why", of: (row) => row.reason,
    isOffered: (row) => isFirst(row.packet), press: (row) => explain.show(row.packet, "drop"),
  },
], "nothing was dropped");

const repairs = new List(at("repairs"), [
  { title: "Entries", text: (row) => row.name },
  number("Total", (row) => short(row.count)),
  number("/s", (row) => short(row.rate)),
], "no entry was looked at");

const edges = new List(at("edges"), [
  { title: "From", text: (row) => row.source },
  { title: "To", text: (row) => row.target },
  number("Packets", (row) => short(row.packets)),
  number("Both caches", (row) => short(row.microflow)),
  number("Wildcard cache only", (row) => short(row.megaflow)),
  number("Slow path", (row) => short(row.slow_path)),
], "no packets are remembered");

const talkers = new List(at("talkers"), [
  number("Packets/s", (row) => short(row.rate)),
  number("Bit/s", (row) => short(row.bits)),
  { title: "Port", text: (row) => row.port ?? "–" },
  { title: "Flow", text: (row) => plain(row.flow), detail: (row) => `→ ${row.actions}`, kind: "code" },
  {
    title: "", button: "Explain", of: (row) => plain(row.flow),
    isOffered: (row) => isFirst(row.packet), press: (row) => explain.show(row.packet, "entry"),
  },
], "no entry was used lately");

const ports = new List(at("ports"), [
  { title: "Port", text: (row) => row.name, detail: (row) => row.bridge },
  { title: "Link", text: (row) => row.status },
  number("In pkt/s", (row) => short(row.in_packets)),
  number("bit/s", (row) => short(row.in_bits)),
  number("Out pkt/s", (row) => short(row.out_packets)),
  number("bit/s", (row) => short(row.out_bits)),
  number("Drops/s", (row) => short(row.drop_rate)),
], "there are no ports");

const graph = new TableGraph(at("graph"), at("graph-legend"), at("graph-note"),
  (rows) => edges.show(rows));

/// A flow without what is zero in most.
function plain(flow) {
  return flow.replaceAll(/\b(skb_\w+|ct_\w+|recirc_id|dp_hash)\(0\),/g, "")
    .replace("packet_type(ns=0,id=0),", "");
}

/// Whether a packet can be asked about: what was looked up again goes on with an earlier walk.
function isFirst(packet) {
  return Boolean(packet) && !/\brecirc_id\((?!0\))/.test(packet);
}

/// Says how it goes with the switch.
function say(text, kind) {
  if (at("state").textContent === text) return;
  at("state").textContent = text;
  at("state").className = kind;
}

/// Asks by `look`; says so if it fails again and again.
async function attempt(look) {
  try {
    await look();
    state.failures.delete(look);
    if (!isPaused && state.failures.size === 0) say("live", "live");
  } catch (error) {
    const failures = (state.failures.get(look) ?? 0) + 1;
    state.failures.set(look, failures);
    if (failures >= FAILURES) say(`no answer: ${error.message}`, "lost");
  }
}

async function lookAtCounts() {
  const live = JSON.parse(await ask("/api/live"));
  const before = state.live;
  // The switch may give the same counts again.
  if (before && before.seconds === live.seconds) return;
  state.live = live;
  state.rates = before ? rates(before, live) : null;
  chart.add(live, state.rates);
  showCounts();
  document.body.dataset.counts = String(Number(document.body.dataset.counts ?? 0) + 1);
}

function showCounts() {
  const { live, rates: now } = state;
  const bridges = [...new Set(live.ports.map((port) => port.bridge))];
  at("bridges").textContent = bridges.slice(0, 4).join(", ") + (bridges.length > 4 ? " …" : "");
  at("summary").textContent = `up ${lasting(live.seconds)}, version ${live.version}, `
    + `${short(live.rules)} rules, ${short(live.connections)} connections`;
  document.title = `${bridges[0] ?? "Thalweg"}: ${short(now?.packets)} packets/s`;
  explain.offer(bridges);
  showTiles();
  showDrops();
  showRepairs();
  const rows = now?.ports ?? live.ports.map((port) => ({ ...port, key: `${port.bridge}\n${port.name}` }));
  ports.show(rows);
}

function showTiles() {
  const { live, rates: now } = state;
  const dropped = now ? sum(now.drops) : null;
  const tiles = [
    ["packets/s", short(now?.packets)],
    ["recirculated/s", short(now?.recirculations)],
    ["slow path/s", short(now?.upcalls)],
    ["dropped/s", short(dropped), dropped > 0 ? "warn" : ""],
    ["microflows", short(live.microflow.entries)],
    ["megaflows", short(live.megaflow.entries)],
    ["masks", short(live.masks)],
    ["masks/lookup", short(now?.probes)],
    ["rule changes/s", short(now?.changes)],
  ];
  at("tiles").replaceChildren(...tiles.map(([name, value, kind]) =>
    element("div", { class: `tile ${kind ?? ""}` }, element("b", {}, value), element("span", {}, name))));
}

function showDrops() {
  const { live, rates: now, entries } = state;
  const rows = Object.entries(live.drops).map(([reason, count]) => {
    const sample = entries?.drops[reason];
    return {
      key: reason, reason: reason.replaceAll("_", " "), count, detail: sampled(sample),
      rate: now?.drops[reason] ?? null, packet: sample?.packet,
    };
  });
  drops.show(rows.sort((one, other) => other.count - one.count));
}

/// The last packet that was dropped for a reason: where its walk ended, and its headers.
function sampled(sample) {
  if (!sample) return "";
  const end = sample.steps?.trim().split("\n").at(-1) ?? "";
  const packet = sample.packet ? `such as ${plain(sample.packet)}` : "";
  const ago = sample.unused_seconds;
  const last = ago === null ? "" : `the last ${lasting(ago)} ago`;
  return [end, packet, last].filter(Boolean).join("\n");
}

function showRepairs() {
  const { live, rates: now } = state;
  const names = {
    unchanged: "right as they were", repaired: "repaired in place",
    moved: "moved, as their region changed", evicted: "evicted",
  };
  repairs.show(Object.entries(names).map(([key, name]) =>
    ({ key, name, count: live.repairs[key], rate: now?.repairs[key] ?? null })));
  const each = live.changes > 0 ? live.change_seconds / live.changes : null;
  at("repairs-note").textContent = each === null ? "No rule was changed."
    : `${short(live.changes)} changes, each followed in ${lasting(each)} on average.`;
}

async function lookAtEntries() {
  const entries = JSON.parse(await ask("/api/entries"));
  const before = state.entries;
  if (before && before.seconds === entries.seconds) return;
  state.entries = entries;
  showTalkers(entries, before);
  const computed = state.rates?.shares?.computed ?? 0;
  const notes = [
    `Packets of ${short(entries.kept)} of ${short(entries.entries)} entries since each was made;`,
    "widths grow with the square root.",
    computed > 0 ? `${percent(computed)} of packets are computed and leave no entry.` : "",
  ];
  graph.show(entries.graph, notes.join(" ").trim());
  if (state.live) showDrops();
  document.body.dataset.entries = String(Number(document.body.dataset.entries ?? 0) + 1);
}

function showTalkers(entries, before) {
  const seconds = before ? entries.seconds - before.seconds : 0;
  const known = state.talkers;
  const rows = entries.talkers.map((entry) => {
    const was = known.get(entry.id);
    const rate = (key) => (was && seconds > 0 ? Math.max(0, entry[key] - was[key]) / seconds : null);
    const bytes = rate("bytes");
    const bits = bytes === null ? null : 8 * bytes;
    return { ...entry, key: entry.id, rate: rate("packets"), bits };
  });
  state.talkers = new Map(entries.talkers.map((entry) => [entry.id, entry]));
  // Entries with the same rate stay in the order of their packets.
  talkers.show(rows.sort((one, other) => (other.rate ?? 0) - (one.rate ?? 0)));
  at("talkers-note").textContent = `${short(entries.single)} of ${short(entries.entries)} entries `
    + "met no packet but the first. A flow shows what its entry compares.";
}

at("pause").addEventListener("click", () => {
  isPaused = !isPaused;
  at("pause").setAttribute("aria-pressed", String(isPaused));
  at("pause").textContent = isPaused ? "Go on" : "Pause";
  if (isPaused) say("paused", "");
});

// A link may have a question.
function askLinked() {
  const linked = location.hash.match(/^#explain=(.+)$/);
  if (linked) explain.show(decodeURIComponent(linked[1]), "entry");
}

/// The same when the bridges are known.
function linkedOnce() {
  if (isLinkDone || !state.live) return;
  isLinkDone = true;
  askLinked();
}

for (const kind of ["error", "unhandledrejection"]) {
  addEventListener(kind, (event) => {
    say(`a fault of this page: ${event.message ?? event.reason}`, "lost");
  });
}

const THEMES = ["system", "light", "dark"];
const prefersDark = matchMedia("(prefers-color-scheme: dark)");

function showTheme() {
  const chosen = localStorage.getItem("thalweg-theme") ?? "system";
  const asked = new URLSearchParams(location.search).get("theme") ?? chosen;
  const isDark = asked === "dark" || (asked !== "light" && prefersDark.matches);
  document.documentElement.dataset.theme = isDark ? "dark" : "light";
  at("theme").textContent = `Theme: ${chosen}`;
}

at("theme").addEventListener("click", () => {
  const chosen = localStorage.getItem("thalweg-theme") ?? "system";
  const next = THEMES[(THEMES.indexOf(chosen) + 1) % THEMES.length];
  localStorage.setItem("thalweg-theme", next);
  showTheme();
});
prefersDark.addEventListener("change", showTheme);
showTheme();

addEventListener("hashchange", askLinked);
repeat(() => attempt(lookAtCounts).then(linkedOnce), LIVE_MS, () => !isPaused);
repeat(() => attempt(lookAtEntries), ENTRIES_MS, () => !isPaused);
