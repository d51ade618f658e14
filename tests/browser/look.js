// What the tests ask of a page that is open. Each answer is a list of what is wrong, empty where nothing is, or a plain value.
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const name = (node) => {
    const kind = node.id ? `#${node.id}` : node.getAttribute("class") ? `.${node.getAttribute("class").trim().split(/\s+/).join(".")}` : "";
    return `${node.tagName.toLowerCase()}${kind} “${(node.textContent ?? "").trim().replace(/\s+/g, " ").slice(0, 40)}”`;
  };
  const seen = (node) => node.checkVisibility({ opacityProperty: true, visibilityProperty: true, contentVisibilityAuto: false });
  const scrolls = (node) => ["auto", "scroll"].includes(getComputedStyle(node).overflowX);
  const above = function* (node) {
    for (; node instanceof Element; node = node.parentElement) yield node;
  };

  // whether a box that scrolls by itself holds it; one that is placed freely is held by what it is placed in alone
  const held = (node) => {
    for (let free = false; node && node !== document.body; node = node.parentElement) {
      const style = getComputedStyle(node);
      if (scrolls(node) && (!free || style.position !== "static")) return true;
      free = style.position === "absolute" || (free && style.position === "static");
    }
    return false;
  };

  // colours, as the canvas reads them: whatever way they are written, four numbers come out
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const known = new Map();
  const colour = (text) => {
    if (!known.has(text)) {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = text;
      canvas.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
      known.set(text, [r, g, b, a / 255]);
    }
    return known.get(text);
  };
  const over = (front, back, share = 1) => front.slice(0, 3).map((v, i) => v * front[3] * share + back[i] * (1 - front[3] * share));
  const behind = (node) => {
    // from the page's own ground up to the node
    const ground = matchMedia("(prefers-color-scheme: dark)").matches ? [18, 18, 18] : [255, 255, 255];
    return [...above(node)].reverse().reduce((back, one) => over(colour(getComputedStyle(one).backgroundColor), back), ground);
  };
  const light = (rgb) => {
    const [r, g, b] = rgb.map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b; // WCAG 2's relative luminance
  };
  const ratio = (one, other) => {
    const [high, low] = [light(one), light(other)].sort((a, b) => b - a);
    return (high + 0.05) / (low + 0.05);
  };
  const controls = () =>
    all("a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex]").filter(
      (node) => !node.disabled && node.tabIndex >= 0 && node.checkVisibility({ visibilityProperty: true }),
    );

  return {
    // also what is not laid out before it is scrolled to, so that nothing moves later
    lay() {
      const sheet = new CSSStyleSheet();
      sheet.replaceSync("* { content-visibility: visible !important; }");
      document.adoptedStyleSheets.push(sheet);
    },
    // everything there is: folds opened, every page of the texts
    unfold() {
      this.lay();
      for (const node of all("details")) node.open = true;
      for (const node of all(".case[hidden]")) node.hidden = false;
    },
    ground: () => light(behind(document.body)),
    // text of which the contrast to its ground is too low; a drawing's text stands on the ground of the drawing
    faint(least) {
      const found = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), asked = new Set();
      let count = 0;
      while (walker.nextNode()) {
        const node = walker.currentNode.parentElement;
        if (!walker.currentNode.data.trim() || asked.has(node) || node.closest("script, style, title, option, :disabled")) continue;
        asked.add(node);
        if (!seen(node)) continue;
        count += 1;
        const style = getComputedStyle(node), back = behind(node);
        const share = [...above(node)].reduce((product, one) => product * Number(getComputedStyle(one).opacity), 1);
        const drawn = node instanceof SVGElement;
        const value = ratio(over(colour(drawn ? style.fill : style.color), back, share), back);
        if (value < least) found.push(`${name(node)} has ${value.toFixed(2)}`);
      }
      return { asked: count, found };
    },
    // what makes the page wider than the screen, or is cut off at its edge
    wide(width) {
      const page = document.scrollingElement.scrollWidth;
      const out = all("body *").filter((node) => {
        if (node.closest("svg")?.contains(node.parentElement) || !node.checkVisibility()) return false;
        const box = node.getBoundingClientRect();
        return box.width > 0 && (box.right > width + 1 || box.left < -1) && !held(node);
      });
      return page > width || out.length ? [`the page is ${page} px wide, the screen ${width}`, ...out.slice(0, 12).map(name)] : [];
    },
    headings() {
      const found = [], levels = all("h1, h2, h3, h4, h5, h6").map((node) => [Number(node.tagName[1]), node]);
      if (levels.filter(([level]) => level === 1).length !== 1) found.push(`${levels.filter(([l]) => l === 1).length} headings of level 1`);
      levels.forEach(([level, node], i) => {
        if (level > (i ? levels[i - 1][0] : 0) + 1) found.push(`${name(node)} skips a level`);
        if (!node.textContent.trim()) found.push(`${name(node)} is empty`);
      });
      return found;
    },
    tables() {
      const found = [];
      for (const table of all("table")) {
        const words = table.caption?.textContent.trim() || table.getAttribute("aria-label") || table.getAttribute("aria-labelledby");
        if (!words) found.push(`${name(table)} has no caption`);
        if (!table.querySelector("th")) found.push(`${name(table)} has no header cell`);
        for (const cell of all("th", table)) if (!/^(col|row)(group)?$/.test(cell.getAttribute("scope") ?? "")) found.push(`${name(cell)} has no scope`);
        const wide = [...table.rows].map((row) => [...row.cells].reduce((sum, cell) => sum + cell.colSpan, 0));
        const spans = table.querySelector("[rowspan]") !== null;
        if (!spans && new Set(wide).size > 1) found.push(`${name(table)} has rows of ${[...new Set(wide)].join(" and ")} cells`);
      }
      return { asked: all("table").length, found };
    },
    pictures() {
      const drawn = all("img, svg, canvas, object, video").filter((node) => !node.parentElement.closest("svg"));
      const told = (node) =>
        node.closest("[aria-hidden=true]") ||
        node.getAttribute("alt") !== null ||
        (node.getAttribute("role") === "img" && (node.getAttribute("aria-label") || node.querySelector(":scope > title")?.textContent));
      return { asked: drawn.length, found: drawn.filter((node) => !told(node)).map(name) };
    },
    anchors: () =>
      all('a[href^="#"]').filter((node) => !document.getElementById(decodeURIComponent(node.hash.slice(1)))).map((node) => `${node.hash} is nowhere`),
    // where the middle of the first that fits comes to lie, and whether a click there would meet it
    middle(selector) {
      const node = document.querySelector(selector);
      node.scrollIntoView({ block: "center", inline: "center" });
      const box = node.getBoundingClientRect(), [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
      return { x, y, met: node.contains(document.elementFromPoint(x, y)) };
    },
    // the keyboard's way through the page is written down as it is walked
    watch() {
      const waiting = new Set(controls()), dull = [];
      document.activeElement?.blur();
      window.scrollTo(0, 0);
      document.addEventListener("focusin", ({ target }) => {
        waiting.delete(target);
        const style = getComputedStyle(target), width = parseFloat(style.outlineWidth);
        const strong = ratio(over(colour(style.outlineColor), behind(target.parentElement ?? target)), behind(target.parentElement ?? target));
        const ring = style.outlineStyle === "auto" || (style.outlineStyle !== "none" && width >= 1 && strong >= 3);
        if (!target.matches(":focus-visible") || !ring) dull.push(name(target));
      });
      this.walked = () => ({ unreached: [...waiting].map(name), dull: [...new Set(dull)] });
      return waiting.size;
    },
    nodes: (selector) => all(selector).length,
    text: () => document.body.innerText,
  };
})()
