// The graph of ports and tables: columns by the longest way, edges as wide as they are busy.

import { drawn, legend, short, watchWidth } from "./draw.js";

const NODE = { width: 112, least: 54, apart: 16 };
/// The height of a line of text.
const LINE = 14;
const COLUMN_APART = 52;
/// Room below the nodes, for edges that lead back.
const BELOW = 28;
const MARGIN = 10;
/// The widths of the least busy edge and of the busiest.
const WIDTHS = { least: 1.5, most: 26 };
/// What is known of an edge's packets: entries do not count by the layer that answered.
const EDGE_LAYERS = [
  { key: "microflow", name: "entries in both caches", what: "exact-match flows lead to the entry" },
  { key: "megaflow", name: "entries of the wildcard cache only", what: "no such flow leads to it" },
  { key: "slow_path", name: "first packets (slow path)", what: "a walk made the entry" },
];

export class TableGraph {
  constructor(place, legendPlace, note, onEdges) {
    Object.assign(this, { place, legendPlace, note, onEdges, graph: null, chosen: null });
    this.isHeld = false;
    this.standing = "";
    watchWidth(place, () => this.draw());
  }

  /// Shows a graph; `standing` is the note while no node is chosen.
  show(graph, standing) {
    this.graph = graph;
    this.standing = standing;
    // What a pointer is at stays where it is.
    if (!this.isHeld) this.draw();
    this.onEdges(described(graph));
  }

  draw() {
    legend(this.legendPlace, EDGE_LAYERS);
    if (!this.graph || this.place.clientWidth === 0) return;
    const layout = laidOut(this.graph, this.place.clientWidth - 2);
    // What is taken away loses the focus, and with it the choice.
    const focused = this.place.contains(document.activeElement) ? this.chosen : null;
    const size = { width: layout.width, height: layout.height };
    const picture = drawn("svg", size, ...edges(layout));
    const nodes = layout.nodes.map((node) => this.node(node, picture, layout));
    picture.append(...nodes);
    this.place.replaceChildren(picture);
    const place = layout.nodes.findIndex((node) => node.key === focused);
    if (place >= 0) nodes[place].focus({ preventScroll: true });
    else this.choose(null, picture, layout);
  }

  node(node, picture, layout) {
    const { x, y, height } = node;
    const middle = x + NODE.width / 2;
    const text = (line, dy, name) =>
      drawn("text", { x: middle, y: y + height / 2 + dy, "text-anchor": "middle", class: name }, line);
    const lines = [shortened(node.title, 17), ...node.detail.split(", ")];
    const label = `${node.title}, ${node.detail}`;
    const shape = drawn("g", {
      class: `node ${node.kind}`, tabindex: 0, role: "img", "aria-label": label,
    });
    const box = { x, y, width: NODE.width, height, rx: node.kind === "table" ? 4 : height / 2 };
    shape.append(
      drawn("title", {}, label),
      drawn("rect", { ...box, rx: Math.min(box.rx, 14) }),
      ...lines.map((line, place) => {
        const down = 4 + LINE * (place - (lines.length - 1) / 2);
        return text(line, down, place === 0 ? null : "faint");
      }),
    );
    const choose = () => this.choose(node, picture, layout);
    const leave = () => this.choose(null, picture, layout);
    const hold = (isHeld, then) => () => {
      this.isHeld = isHeld;
      then();
    };
    shape.addEventListener("focus", choose);
    shape.addEventListener("blur", leave);
    shape.addEventListener("pointerenter", hold(true, choose));
    shape.addEventListener("pointerleave", hold(false, leave));
    return shape;
  }

  choose(node, picture, layout) {
    this.chosen = node?.key ?? null;
    picture.classList.toggle("chosen", node !== null);
    for (const edge of picture.querySelectorAll(".edge")) {
      const isNear = node && [edge.dataset.from, edge.dataset.to].includes(String(node.index));
      edge.classList.toggle("near", Boolean(isNear));
    }
    this.note.textContent = node ? near(node, layout) : this.standing;
  }
}

/// What leads to a node and away from it, in words.
function near(node, layout) {
  const names = (edges, end) => edges
    .sort((one, other) => other.packets - one.packets)
    .map((edge) => `${layout.nodes[edge[end]].title} (${short(edge.packets)})`).join(", ");
  const to = names(layout.edges.filter((edge) => edge.to === node.index), "from");
  const from = names(layout.edges.filter((edge) => edge.from === node.index), "to");
  const parts = [to && `from ${to}`, from && `to ${from}`].filter(Boolean);
  return `${node.title}: ${node.detail}; ${parts.join("; ") || "no remembered packets"}.`;
}

/// The edges as rows of a table, the busiest first.
function described(graph) {
  const rows = graph.edges.map((edge) => ({
    ...edge,
    key: `${edge.from} ${edge.to}`,
    packets: packetsOf(edge),
    source: titled(graph.nodes[edge.from]).title,
    target: titled(graph.nodes[edge.to]).title,
  }));
  return rows.sort((one, other) => other.packets - one.packets);
}

function packetsOf(edge) {
  return EDGE_LAYERS.reduce((sum, { key }) => sum + edge[key], 0);
}

function titled(node) {
  if (node.kind !== "table") {
    const details = { in: "receives", out: "sends", drop: "packets end" };
    const name = node.kind === "in" || node.kind === "out" ? `port ${node.name}` : node.name;
    const title = node.name === "many ports" ? node.name : name;
    return { title, detail: details[node.kind] ?? "gets packets" };
  }
  const detail = `${short(node.lookups)} lookups, ${short(node.rules)} rules`;
  return { title: `${node.bridge} table ${node.table}`, detail };
}

function shortened(text, most) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

/// Nodes with places, and edges with packets, widths and ways.
function laidOut(graph, roomWidth) {
  const nodes = graph.nodes.map((node, index) => {
    const key = JSON.stringify([node.kind, node.name, node.bridge, node.table]);
    return { ...node, ...titled(node), key, index, into: 0, out: 0 };
  });
  const edges = graph.edges.map((edge) => ({ ...edge, packets: packetsOf(edge) }));
  const most = Math.max(1, ...edges.map((edge) => edge.packets));
  for (const edge of edges) {
    const grown = Math.sqrt(edge.packets / most) * (WIDTHS.most - WIDTHS.least);
    edge.width = WIDTHS.least + grown;
    nodes[edge.from].out += edge.width;
    nodes[edge.to].into += edge.width;
  }
  for (const node of nodes) node.height = Math.max(NODE.least, node.into + 8, node.out + 8);
  levels(nodes, edges);
  const columns = inColumns(nodes, edges);
  order(columns);
  const free = roomWidth - 2 * MARGIN - columns.length * NODE.width;
  const apart = Math.max(COLUMN_APART, free / Math.max(1, columns.length - 1));
  const leadsBack = (edge) => nodes[edge.to].column <= nodes[edge.from].column;
  const below = edges.some(leadsBack) ? BELOW : 0;
  const height = placed(columns, Math.min(apart, 260)) + below;
  const width = MARGIN + Math.max(...nodes.map((node) => node.x + NODE.width), 0);
  fasten(nodes, edges);
  return { nodes, edges, width, height };
}

/// The columns: nodes, and a lane for each edge that passes by a column.
function inColumns(nodes, edges) {
  const used = [...new Set(nodes.map((node) => node.level))].sort((one, other) => one - other);
  const columns = used.map(() => []);
  for (const node of nodes) {
    node.column = used.indexOf(node.level);
    node.beside = [];
    columns[node.column].push(node);
  }
  for (const edge of edges) {
    const [from, to] = [nodes[edge.from], nodes[edge.to]];
    edge.lanes = [];
    let last = from;
    for (let place = from.column + 1; place < to.column; place += 1) {
      const lane = { isLane: true, height: edge.width, beside: [last] };
      last.beside.push(lane);
      columns[place].push(lane);
      edge.lanes.push(lane);
      last = lane;
    }
    if (to.column > from.column) {
      last.beside.push(to);
      to.beside.push(last);
    }
  }
  return columns;
}

/// Puts what is joined near to each other: each column by the middle of what is beside it.
function order(columns) {
  const number = (column) => column.forEach((node, place) => {
    node.rank = (place + 0.5) / column.length;
  });
  columns.forEach(number);
  for (let round = 0; round < 6; round += 1) {
    const turn = round % 2 === 0 ? columns : [...columns].reverse();
    for (const column of turn) {
      for (const node of column) {
        const sum = node.beside.reduce((total, other) => total + other.rank, 0);
        node.wanted = node.beside.length > 0 ? sum / node.beside.length : node.rank;
      }
      column.sort((one, other) => one.wanted - other.wanted);
      number(column);
    }
  }
}

/// Gives each node its column: behind all from which packets come, apart from ways back.
function levels(nodes, edges) {
  const leading = nodes.map(() => []);
  for (const edge of edges) leading[edge.from].push(edge);
  const state = nodes.map(() => 0);
  const order = [];
  const visit = (index) => {
    state[index] = 1;
    for (const edge of leading[index]) {
      edge.isBack = state[edge.to] === 1;
      if (state[edge.to] === 0) visit(edge.to);
    }
    state[index] = 2;
    order.unshift(index);
  };
  const isIn = (node) => node.kind === "in";
  const begins = [...nodes.filter(isIn), ...nodes.filter((node) => !isIn(node))];
  for (const node of begins) if (state[node.index] === 0) visit(node.index);
  for (const node of nodes) node.level = isIn(node) ? 0 : 1;
  for (const index of order) {
    for (const edge of leading[index].filter((edge) => !edge.isBack)) {
      const to = nodes[edge.to];
      to.level = Math.max(to.level, nodes[index].level + 1);
    }
  }
  const tables = nodes.filter((node) => node.kind === "table");
  const end = Math.max(1, ...tables.map((node) => node.level)) + 1;
  for (const node of nodes) if (!isIn(node) && node.kind !== "table") node.level = end;
}

/// Places the columns' nodes; returns the height of all.
function placed(columns, apart) {
  const gap = (node) => (node.isLane ? NODE.apart / 2 : NODE.apart);
  const heights = columns.map((column) =>
    column.reduce((sum, node) => sum + node.height + gap(node), 0));
  const most = Math.max(NODE.least, ...heights);
  columns.forEach((column, place) => {
    let y = MARGIN + (most - heights[place]) / 2;
    for (const node of column) {
      node.x = MARGIN + place * (NODE.width + apart);
      node.y = y + gap(node) / 2;
      y += node.height + gap(node);
    }
  });
  return most + 2 * MARGIN;
}

/// Fastens the ends of edges to the sides of nodes, in the order of what they lead to.
function fasten(nodes, edges) {
  const middle = (node) => node.y + node.height / 2;
  const next = (edge) => edge.lanes[0] ?? nodes[edge.to];
  const before = (edge) => edge.lanes.at(-1) ?? nodes[edge.from];
  for (const node of nodes) {
    for (const [own, other, place] of [["from", next, "y1"], ["to", before, "y2"]]) {
      const ends = edges.filter((edge) => edge[own] === node.index);
      ends.sort((one, two) => middle(other(one)) - middle(other(two)));
      const total = ends.reduce((sum, edge) => sum + edge.width, 0);
      let y = node.y + (node.height - total) / 2;
      for (const edge of ends) {
        edge[place] = y + edge.width / 2;
        y += edge.width;
      }
    }
  }
}

/// The edges: side by side, a stroke for each layer.
function edges({ nodes, edges, height }) {
  return edges.flatMap((edge) => {
    const [from, to] = [nodes[edge.from], nodes[edge.to]];
    const parts = EDGE_LAYERS.filter(({ key }) => edge[key] > 0);
    const told = parts.map(({ key, name }) => `${name} ${short(edge[key])}`).join(", ");
    let offset = -edge.width / 2;
    return parts.map(({ key }) => {
      const width = edge.width * (edge[key] / edge.packets);
      const shift = offset + width / 2;
      offset += width;
      return drawn("path", {
        class: `edge ${key}`, d: way(from, to, edge, shift, height - 8),
        "stroke-width": Math.max(width, 0.75), "data-from": edge.from, "data-to": edge.to,
      }, drawn("title", {}, `${from.title} to ${to.title}: ${told}`));
    });
  });
}

/// The way of an edge, by its lanes; one that leads back goes below the nodes.
function way(from, to, edge, shift, low) {
  const begin = { x: from.x + NODE.width, y: edge.y1 + shift };
  const end = { x: to.x, y: edge.y2 + shift };
  if (to.column <= from.column) {
    const middle = (begin.x + end.x) / 2;
    return `M${begin.x},${begin.y} C${begin.x + 45},${begin.y} ${begin.x + 45},${low} `
      + `${middle},${low} S${end.x - 45},${end.y} ${end.x},${end.y}`;
  }
  let [path, at] = [`M${begin.x},${begin.y}`, begin];
  const bendTo = ({ x, y }) => {
    const middle = (at.x + x) / 2;
    path += ` C${middle},${at.y} ${middle},${y} ${x},${y}`;
    at = { x, y };
  };
  for (const lane of edge.lanes) {
    const y = lane.y + lane.height / 2 + shift;
    bendTo({ x: lane.x, y });
    at = { x: lane.x + NODE.width, y };
    path += ` L${at.x},${y}`;
  }
  bendTo(end);
  return path;
}
