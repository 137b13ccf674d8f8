// The box that explains a packet.

import { ask } from "./ask.js";
import { element } from "./draw.js";

export class ExplainBox {
  constructor(form, output) {
    Object.assign(this, { form, output, bridges: [] });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.explain();
    });
  }

  /// Offers these bridges.
  offer(bridges) {
    if (bridges.join("\n") === this.bridges.join("\n")) return;
    this.bridges = bridges;
    const chosen = this.form.bridge.value;
    const options = bridges.map((name) => element("option", { value: name }, name));
    this.form.bridge.replaceChildren(...options);
    if (bridges.includes(chosen)) this.form.bridge.value = chosen;
  }

  /// Explains a packet that another part of the page shows.
  show(flow, kind) {
    this.form.flow.value = flow;
    this.form.kind.value = kind;
    this.form.scrollIntoView({ block: "start" });
    this.form.flow.focus({ preventScroll: true });
    this.explain();
  }

  async explain() {
    const flow = this.form.flow.value.trim();
    const words = new URLSearchParams({ flow, kind: this.form.kind.value });
    // Flows of a datapath have brackets, and no bridge: their ports are of all bridges.
    if (!/^\w+\(/.test(flow)) words.set("bridge", this.form.bridge.value);
    let [text, isRefused] = ["", false];
    try {
      text = await ask(`/api/explain?${words}`);
    } catch (error) {
      [text, isRefused] = [error.message, true];
    }
    this.output.hidden = false;
    this.output.textContent = text.trimEnd();
    this.output.classList.toggle("refused", isRefused);
  }
}
