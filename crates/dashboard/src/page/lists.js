// Tables whose rows stay the same elements while their numbers change.

import { element } from "./draw.js";

/// Shows rows in a table. A column has a `title`, a `text(row)`, perhaps a `kind` of cell
/// ("number", "code"), a `detail(row)` below the text, and a `button` with a `press(row)`.
export class List {
  constructor(table, columns, empty) {
    Object.assign(this, { table, columns, known: new Map() });
    const titles = columns.map(({ title, kind }) =>
      element("th", { scope: "col", class: kind === "number" ? "number" : null }, title));
    this.body = element("tbody");
    this.none = element("tr", {}, element("td", { class: "empty", colspan: columns.length }, empty));
    table.replaceChildren(element("thead", {}, element("tr", {}, ...titles)), this.body);
    this.show([]);
  }

  /// Shows these rows; each has a `key`.
  show(rows) {
    const focused = document.activeElement;
    const lines = rows.map((row) => {
      const line = this.known.get(row.key) ?? this.line();
      line.row = row;
      this.columns.forEach((column, place) => update(line.cells[place], column, row));
      return [row.key, line];
    });
    this.known = new Map(lines);
    const wanted = lines.length > 0 ? lines.map(([, line]) => line.node) : [this.none];
    const present = [...this.body.children];
    const isSame = present.length === wanted.length
      && present.every((node, place) => node === wanted[place]);
    if (!isSame) {
      this.body.replaceChildren(...wanted);
      // A row that moved keeps the keyboard.
      if (focused !== document.activeElement && this.body.contains(focused)) {
        focused.focus({ preventScroll: true });
      }
    }
  }

  line() {
    const line = { row: null, cells: [] };
    line.cells = this.columns.map((column) => {
      const cell = element("td", { class: column.kind });
      if (column.button) {
        const button = element("button", { type: "button" }, column.button);
        button.addEventListener("click", () => column.press(line.row));
        cell.append(button);
      }
      return cell;
    });
    line.node = element("tr", {}, ...line.cells);
    return line;
  }
}

function update(cell, column, row) {
  if (column.button) {
    const button = cell.firstChild;
    button.hidden = column.isOffered ? !column.isOffered(row) : false;
    button.setAttribute("aria-label", `${column.button} ${column.of(row)}`);
    return;
  }
  const text = column.text(row);
  const detail = column.detail?.(row) ?? "";
  if (cell.dataset.text === text && cell.dataset.detail === detail) return;
  Object.assign(cell.dataset, { text, detail });
  cell.replaceChildren(text, ...(detail ? [element("small", {}, detail)] : []));
}
