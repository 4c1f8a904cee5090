// Sort and filter the tables of the leaderboard. Without this script, they show all rows in their order.
function boardTable(frame) {
  const table = frame.querySelector("table"), body = table.tBodies[0], rows = [...body.rows];
  const heads = [...table.tHead.rows[0].cells];
  const value = (row, column) => {
    const cell = row.cells[column], text = cell.dataset.value ?? cell.textContent.trim();
    return text !== "" && !isNaN(text) ? Number(text) : text === "inf" ? Infinity : text;
  };
  const filters = document.createElement("form"), count = document.createElement("output"), tests = [];
  filters.className = "board-filters";
  filters.addEventListener("submit", (event) => event.preventDefault());
  heads.forEach((head, column) => {
    const kind = head.dataset.filter, name = head.textContent;
    if (kind) {
      const label = document.createElement("label"), field = document.createElement(kind === "most" ? "input" : "select");
      label.append(kind === "most" ? `${name} ≤ ` : `${name} `, field);
      if (kind === "most") {
        Object.assign(field, { type: "number", min: "0", step: "any", size: 6 });
        tests.push((row) => field.value === "" || (typeof value(row, column) === "number" && value(row, column) <= Number(field.value)));
      } else {
        field.add(new Option("all", ""));
        [...new Set(rows.map((row) => row.cells[column].textContent.trim()))].sort().forEach((text) => field.add(new Option(text, text)));
        tests.push((row) => field.value === "" || row.cells[column].textContent.trim() === field.value);
      }
      field.addEventListener("input", show);
      filters.append(label);
    }
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = name;
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      rows.sort((one, other) => {
        const [a, b] = [value(one, column), value(other, column)];
        const order = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
        return down ? -order : order;
      });
      body.append(...rows);
    });
    head.replaceChildren(button);
  });
  // Ranks count the more accurate ranked rows of the same unit that are shown.
  function show() {
    rows.forEach((row) => { row.hidden = !tests.every((test) => test(row)); });
    const shown = rows.filter((row) => !row.hidden), accuracy = heads.findIndex((head) => head.textContent.startsWith("Accuracy"));
    const ranked = shown.filter((row) => row.dataset.unit);
    ranked.forEach((row) => {
      const better = ranked.filter((other) => other.dataset.unit === row.dataset.unit && value(other, accuracy) > value(row, accuracy));
      row.cells[0].textContent = row.cells[0].dataset.value = better.length + 1;
    });
    count.textContent = `${shown.length} of ${rows.length} rows`;
  }
  filters.append(count);
  frame.before(filters);
  show();
}
document.querySelectorAll(".board:not(.plain)").forEach(boardTable);
