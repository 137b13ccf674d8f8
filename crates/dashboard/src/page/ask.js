// Asks the switch, again and again.

/// The longest wait for an answer.
const PATIENCE_MS = 15_000;

/// The answer at `path`; throws an error whose message is for the reader.
export async function ask(path) {
  const signal = AbortSignal.timeout(PATIENCE_MS);
  const answer = await fetch(path, { signal, cache: "no-store" });
  const text = await answer.text();
  if (!answer.ok) throw new Error(text.trim() || `status ${answer.status}`);
  return text;
}

/// Calls `look` every `every_ms`, one call at a time, while `isWanted()`; a hidden page waits.
export function repeat(look, every_ms, isWanted) {
  const round = async () => {
    const start = performance.now();
    if (isWanted() && !document.hidden) await look();
    const rest = every_ms - (performance.now() - start);
    setTimeout(round, Math.max(rest, every_ms / 4));
  };
  round();
}
