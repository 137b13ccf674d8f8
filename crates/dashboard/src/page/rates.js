// What happened between two answers, as rates.

/// The layers that answer packets, in the order in which they are asked.
export const LAYERS = [
  { key: "microflow", name: "microflow", what: "the exact-match cache" },
  { key: "megaflow", name: "megaflow", what: "the wildcard cache" },
  { key: "computed", name: "computational", what: "the rules, without a cache" },
  { key: "slow_path", name: "slow path", what: "a walk through the tables" },
];

/// Lookups that each layer answered since the start.
export function answered(live) {
  return {
    microflow: live.microflow.hits,
    megaflow: live.megaflow.hits,
    computed: live.computed,
    slow_path: live.upcalls,
  };
}

/// Rates between two answers; null if the switch is another one or no time has passed.
export function rates(before, now) {
  const seconds = now.seconds - before.seconds;
  if (!(seconds > 0) || now.packets < before.packets) return null;
  const rate = (was, is) => Math.max(0, (is ?? 0) - (was ?? 0)) / seconds;
  const each = (was, is) =>
    Object.fromEntries(Object.keys(is).map((key) => [key, rate(was[key], is[key])]));
  const layers = each(answered(before), answered(now));
  const lookups = Object.values(layers).reduce((sum, part) => sum + part, 0);
  const probed = before.megaflow.hits + before.megaflow.misses;
  const probes = now.megaflow.hits + now.megaflow.misses - probed;
  return {
    seconds,
    packets: rate(before.packets, now.packets),
    recirculations: rate(before.recirculations, now.recirculations),
    upcalls: rate(before.upcalls, now.upcalls),
    changes: rate(before.changes, now.changes),
    layers,
    shares: lookups > 0 ? scaled(layers, 1 / lookups) : null,
    probes: probes > 0 ? (now.probes - before.probes) / probes : null,
    drops: each(before.drops, now.drops),
    evictions: sum(each(before.evictions, now.evictions)),
    repairs: each(before.repairs, now.repairs),
    ports: portRates(before, now, rate),
  };
}

function portRates(before, now, rate) {
  const key = (port) => `${port.bridge}\n${port.name}`;
  const known = new Map(before.ports.map((port) => [key(port), port]));
  return now.ports.map((port) => {
    const was = known.get(key(port)) ?? port;
    return {
      ...port,
      key: key(port),
      in_packets: rate(was.received_packets, port.received_packets),
      in_bits: 8 * rate(was.received_bytes, port.received_bytes),
      out_packets: rate(was.sent_packets, port.sent_packets),
      out_bits: 8 * rate(was.sent_bytes, port.sent_bytes),
      drop_rate: rate(was.drops, port.drops),
    };
  });
}

function scaled(counts, factor) {
  return Object.fromEntries(Object.entries(counts).map(([key, count]) => [key, count * factor]));
}

export function sum(counts) {
  return Object.values(counts).reduce((total, count) => total + count, 0);
}
