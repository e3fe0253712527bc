// Search and filter; without JavaScript the lists unfold by themselves.
(() => {
  const byId = (id) => document.getElementById(id);
  const words = byId("words"), family = byId("family");
  const sections = [...document.querySelectorAll("#rules .family")].map((section) => ({
    section,
    name: section.id.slice("family-".length),
    rules: [...section.querySelectorAll(".index li")].map((item) => {
      return { item, text: `${item.textContent} ${item.firstElementChild.getAttribute("href")}`.toLowerCase() };
    }),
  }));
  const total = sections.reduce((sum, { rules }) => sum + rules.length, 0);
  const show = () => {
    const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const { section, name, rules } of sections) {
      let fitting = 0;
      for (const { item, text } of rules) {
        const fits = (!family.value || name === family.value) && wanted.every((word) => text.includes(word));
        item.hidden = !fits;
        fitting += fits;
      }
      section.hidden = !fitting;
      section.open = fitting > 0 && (wanted.length > 0 || family.value !== "");
      count += fitting;
    }
    byId("nothing").hidden = count > 0;
    byId("shown").textContent = `${count} of ${total}`;
  };
  // A link to a family from the table unfolds it.
  const reveal = () => {
    const target = byId(decodeURIComponent(location.hash.slice(1)));
    if (target instanceof HTMLDetailsElement) target.open = true;
  };
  for (const control of [words, family]) control.addEventListener("input", show);
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  addEventListener("hashchange", reveal);
  byId("filters").hidden = false;
  show();
  reveal();
})();
