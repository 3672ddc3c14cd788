// Rows of a view in the order of their groups: change, insert and remove them as changes come.

function cell(kind, text) {
  const made = document.createElement("td");
  made.className = kind;
  made.textContent = text;
  return made;
}

function madeRow(body, change) {
  const row = document.createElement("tr");
  row.dataset.order = change.order;
  const key = document.createElement("th");
  key.scope = "row";
  key.textContent = change.key;
  const link = document.createElement("a");
  link.href = `/views/${encodeURIComponent(body.dataset.view)}/why?group=${encodeURIComponent(change.group)}`;
  link.textContent = "why";
  const last = document.createElement("td");
  last.append(link);
  row.append(key, ...change.cells.map((text) => cell("number", text)), cell("delta", change.delta), last);
  return row;
}

function changeRow(row, change) {
  change.cells.forEach((text, i) => {
    const place = row.children[i + 1];
    if (place.textContent !== text) place.textContent = text;
  });
  row.children[change.cells.length + 1].textContent = change.delta;
}

function flash(row) {
  row.classList.remove("moved");
  row.addEventListener("animationend", () => row.classList.remove("moved"), { once: true });
  requestAnimationFrame(() => row.classList.add("moved"));
}

// The first row whose group comes at or after `order` in the order of the page.
function placeOf(rows, order, reverse) {
  let low = 0;
  let high = rows.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    const before = reverse ? rows[middle].dataset.order > order : rows[middle].dataset.order < order;
    if (before) low = middle + 1;
    else high = middle;
  }
  return rows[low] ?? null;
}

// Apply changes to the rows of the page. Return the number of rows that it shows then.
export function applyRows(changes) {
  const body = document.querySelector("tbody[data-rows]");
  if (!body) return 0;
  const reverse = "reverse" in body.dataset;
  for (const change of changes) {
    const place = placeOf(body.rows, change.order, reverse);
    const same = place && place.dataset.order === change.order;
    if (change.gone) {
      if (same) place.remove();
      continue;
    }
    let row = place;
    if (same) changeRow(row, change);
    else {
      row = madeRow(body, change);
      body.insertBefore(row, place);
    }
    flash(row);
  }
  while (body.rows.length > Number(body.dataset.limit)) body.lastElementChild.remove();
  return body.rows.length;
}
