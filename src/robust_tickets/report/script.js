// Filters for the attacked texts. Without this script the page shows everything.
"use strict";
for (const form of document.querySelectorAll("form.filters")) {
  const cases = [...form.parentElement.querySelectorAll(".case")];
  const more = form.parentElement.querySelector("details.more");
  const count = form.querySelector("output");
  const apply = () => {
    const { outcome, arm, words } = form.elements;
    const wanted = words.value.trim().toLowerCase();
    let shown = 0;
    for (const card of cases) {
      const rows = [...card.querySelectorAll("li")];
      const fits = rows.some((row) => (!outcome.value || row.dataset.outcome === outcome.value) && (!arm.value || row.dataset.arm === arm.value));
      card.hidden = !(fits && (!wanted || card.textContent.toLowerCase().includes(wanted)));
      shown += card.hidden ? 0 : 1;
    }
    const filtering = outcome.value || arm.value || wanted;
    if (more && filtering) more.open = true;
    count.textContent = filtering ? `${shown} of ${cases.length}` : "";
  };
  form.addEventListener("input", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.hidden = false;
}
