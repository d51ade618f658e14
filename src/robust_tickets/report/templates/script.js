// Filters and pages for the attacked texts, and folds opened on paper. Without this script the page shows everything.
"use strict";
let folds = [];
addEventListener("beforeprint", () => {
  folds = [...document.querySelectorAll("details:not([open])")];
  for (const fold of folds) fold.open = true;
});
addEventListener("afterprint", () => {
  for (const fold of folds) fold.open = false;
});
const PAGE = 12;
for (const form of document.querySelectorAll("form.filters")) {
  const part = form.parentElement;
  const turner = part.querySelector(".turner");
  const [back, on] = turner.querySelectorAll("button");
  const status = turner.querySelector("output");
  const list = part.querySelector(".cases");
  const cards = [...list.querySelectorAll(".case")].map((node) => ({
    node,
    attack: node.dataset.attack,
    label: node.dataset.label,
    differ: "differ" in node.dataset,
    rows: [...node.querySelectorAll("li[data-arm]")].map((row) => [row.dataset.arm, row.dataset.outcome]),
    words: null, // in lower case, once they are looked for
  }));
  list.replaceChildren(...cards.map((card) => card.node)); // pages take the fold's place
  for (const card of cards) card.node.hidden = true;
  let fitting = cards, shown = [], page = 0;

  const wanted = (name) => form.elements[name]?.value ?? "";
  const show = () => {
    for (const card of shown) card.node.hidden = true;
    shown = fitting.slice(page * PAGE, (page + 1) * PAGE);
    for (const card of shown) card.node.hidden = false;
    const first = page * PAGE + 1, all = cards.length;
    const of = fitting.length === all ? `${all} texts` : `${fitting.length} that fit, of ${all} texts`;
    status.textContent = fitting.length ? `${first} to ${first + shown.length - 1} of ${of}` : `none of ${all} texts fits`;
    back.disabled = page === 0;
    on.disabled = (page + 1) * PAGE >= fitting.length;
  };
  const choose = () => {
    const [attack, outcome, arm, label] = ["attack", "outcome", "arm", "label"].map(wanted);
    const words = wanted("words").trim().toLowerCase(), differ = form.elements.differ?.checked;
    const row = ([a, o]) => (!outcome || o === outcome) && (!arm || a === arm);
    fitting = cards.filter(
      (card) =>
        (!attack || card.attack === attack) && (!label || card.label === label) && (!differ || card.differ) && card.rows.some(row) &&
        (!words || (card.words ??= card.node.textContent.toLowerCase()).includes(words)),
    );
    page = 0;
    show();
  };
  const turn = (by) => {
    page += by;
    show();
    form.scrollIntoView({ block: "start" });
  };
  let waiting = 0;
  form.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(choose, 80); // more may be typed meanwhile
  });
  form.addEventListener("reset", () => setTimeout(choose)); // the fields are reset after this event
  form.addEventListener("submit", (event) => event.preventDefault());
  back.addEventListener("click", () => turn(-1));
  on.addEventListener("click", () => turn(1));
  form.hidden = turner.hidden = false;
  show();
}
