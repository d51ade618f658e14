// Sorting of the leaderboards, and opening what a link leads to. Without this script the tables stand sorted as their heading says.
for (const table of document.querySelectorAll("table.board")) {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  const status = document.createElement("output");
  status.className = "unseen";
  status.setAttribute("aria-live", "polite");
  table.parentElement.after(status);
  const value = (row, place) => {
    const data = row.cells[place].querySelector("data");
    return data ? Number(data.value) : null;
  };
  const sort = (place, direction) => {
    const sign = direction === "ascending" ? 1 : -1;
    const words = heads[place].dataset.sort === "text";
    const key = (row) => (words ? row.cells[place].textContent.trim() : value(row, place));
    const rows = [...body.rows].sort((a, b) => {
      const [x, y] = [key(a), key(b)];
      if (x === null || y === null) return (x === null) - (y === null); // what has no value stays below, whichever way
      return words ? sign * x.localeCompare(y, "en") : sign * (x - y);
    });
    body.replaceChildren(...rows);
    for (const head of heads) head.removeAttribute("aria-sort");
    heads[place].setAttribute("aria-sort", direction);
    status.textContent = `sorted by ${heads[place].textContent.trim()}, ${direction}`;
  };
  heads.forEach((head, place) => {
    if (!head.dataset.sort) return;
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    const first = head.dataset.sort === "high" ? "descending" : "ascending"; // the better end first
    const other = first === "descending" ? "ascending" : "descending";
    button.addEventListener("click", () => sort(place, head.getAttribute("aria-sort") === first ? other : first));
  });
}
const reveal = () => {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  let shut = false;
  for (let node = target; node; node = node.parentElement) {
    if (node.tagName === "DETAILS" && !node.open) shut = node.open = true;
  }
  if (shut) target.scrollIntoView({ block: "start" });
};
addEventListener("hashchange", reveal);
reveal();
