// Search and filters; without JavaScript the page shows everything.
(() => {
  const byId = (id) => document.getElementById(id);
  const words = byId("words"), family = byId("family"), outputs = byId("outputs");
  const rules = [...document.querySelectorAll("#rules .rule")];
  const sections = [...document.querySelectorAll("#rules .family")];
  const show = () => {
    const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const rule of rules) {
      const { text, family: name, outputs: number } = rule.dataset;
      const fits = wanted.every((word) => text.includes(word)) &&
        (!family.value || name === family.value) && (!outputs.value || number === outputs.value);
      rule.hidden = !fits;
      count += fits;
    }
    for (const section of sections) section.hidden = !section.querySelector(".rule:not([hidden])");
    byId("nothing").hidden = count > 0;
    byId("shown").textContent = `${count} of ${rules.length}`;
  };
  // A link to a rule that is filtered away shows it.
  const reveal = () => {
    const target = byId(decodeURIComponent(location.hash.slice(1)));
    if (target?.closest("#rules [hidden]")) {
      words.value = family.value = outputs.value = "";
      show();
      target.scrollIntoView();
    }
  };
  for (const control of [words, family, outputs]) control.addEventListener("input", show);
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  addEventListener("hashchange", reveal);
  byId("filters").hidden = false;
  show();
})();
