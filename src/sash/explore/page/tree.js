// Draws the structure of one window: a tree of nodes, or the elements of a queue.
"use strict";

const Draw = (() => {
  const NAMESPACE = "http://www.w3.org/2000/svg";
  const CELL_HIGH = 34, LEVEL = 104, GAP = 16, MARGIN = 22, MOST_LETTERS = 13;
  const PARTS = {"left own": "own", "right own": "own", "left cum": "to root", "right cum": "from root", inner: "inner", middle: "middle"};

  function element(name, attributes = {}, ...children) {
    const made = document.createElementNS(NAMESPACE, name);
    for (const [key, value] of Object.entries(attributes)) if (value != null) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }

  function short(text, most = MOST_LETTERS) {
    if (text.length <= most) return text;
    const half = Math.floor((most - 1) / 2);
    return text.slice(0, half) + "…" + text.slice(-half);
  }

  const number = (time) => String(Math.round(time * 1e6) / 1e6);
  const letters = (text, size = 8.6) => text.length * size;

  // --- layout: children side by side, parents above their middle ------------------------------------------------

  function cellsOf(node) {
    return node.keys.map((time, i) => {
      const value = node.values.length ? short(node.values[i], 8) : "";
      return {time, value, width: Math.max(letters(value) + 10, letters(number(time), 6) + 8, 20)};
    });
  }

  function boxOf(node, children) {
    const cells = cellsOf(node);
    const own = cells.reduce((sum, cell) => sum + cell.width, 0) || 24;
    const chips = node.aggregates.filter((one) => one.part !== "suffix" && one.part !== "prefix");
    const chip = Math.max(0, ...chips.map((one) => letters(short(one.value), 6.8) + 12 + (PARTS[one.part] ? 44 : 0)));
    return {node, cells, chips, width: own + 8, span: Math.max(own + 8, chip), children, x: 0, y: 0};
  }

  function layout(picture) {
    const below = new Map(picture.nodes.map((node) => [node.id, []]));
    let root = null;
    for (const node of picture.nodes) {
      if (node.parent == null) root = node;
      else below.get(node.parent).push(node);
    }
    const build = (node) => boxOf(node, below.get(node.id).map(build));
    const top = build(root);
    const right = place(top, MARGIN);
    descend(top, MARGIN);
    const boxes = [];
    (function collect(box) { boxes.push(box); box.children.forEach(collect); })(top);
    return {boxes, width: right + MARGIN, height: Math.max(...boxes.map((box) => box.y + box.high)) + 14};
  }

  function place(box, left) {
    let right = left;
    for (const child of box.children) right = place(child, right) + GAP;
    right = Math.max(right - (box.children.length ? GAP : 0), left + box.span);
    const inside = box.children.map((child) => child.x);
    box.x = inside.length ? (inside[0] + inside[inside.length - 1]) / 2 : (left + right) / 2;
    if (box.x - box.span / 2 < left) {  // a wide parent over narrow children
      const push = left - (box.x - box.span / 2);
      move(box, push);
      right = Math.max(right, box.x + box.span / 2);
    }
    return Math.max(right, box.x + box.span / 2);
  }

  function move(box, by) {
    box.x += by;
    box.children.forEach((child) => move(child, by));
  }

  function descend(box, y) {
    box.y = y;
    box.high = CELL_HIGH + 8 + 20 * box.chips.length + (box.node.folded ? 46 : 0);
    const step = Math.max(LEVEL, box.high + 30);
    box.children.forEach((child) => descend(child, y + step));
  }

  // --- drawing --------------------------------------------------------------------------------------------------

  function tree(svg, report, known) {
    const {boxes, width, height} = layout(report.picture);
    const marks = marksOf(report);
    const edges = element("g"), nodes = element("g");
    for (const box of boxes)
      for (const child of box.children)
        edges.append(element("path", {class: "edge", d: `M${box.x} ${box.y + CELL_HIGH} L${child.x} ${child.y}`}));
    const now = new Map();
    for (const box of boxes) {
      const group = nodeGroup(box, marks);
      nodes.append(group);
      const old = known.get(box.node.id);
      group.style.transform = `translate(${(old || box).x}px, ${(old || box).y}px)`;
      now.set(box.node.id, {x: box.x, y: box.y, group});
    }
    svg.replaceChildren(edges, nodes);
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    requestAnimationFrame(() => { for (const {x, y, group} of now.values()) group.style.transform = `translate(${x}px, ${y}px)`; });
    return {positions: now, width, height};
  }

  function marksOf(report) {
    const owner = (name) => Number(String(name).split(":")[0]);
    const update = report.update, query = report.query || {fresh: [], read: [], taken: []};
    const isQuestion = report.operation && ["range", "query"].includes(report.operation.op);
    const fresh = new Set([...update.fresh, ...query.fresh]);
    const touched = new Set([...update.looked, ...update.changed, ...update.fresh.map(owner), ...(isQuestion ? [...query.looked, ...query.fresh.map(owner)] : [])]);
    return {touched, created: new Set(update.created), fresh, read: new Set(query.read), taken: new Set(query.taken)};
  }

  function nodeGroup(box, marks) {
    const {node} = box;
    const touched = marks.touched.has(node.id), created = marks.created.has(node.id);
    const group = element("g", {class: ["node", node.spine || "", created ? "created" : touched ? "touched" : "", node.values.length ? "" : "inner-key"].join(" "), "data-node": node.id});
    group.append(element("rect", {class: "box", x: -box.width / 2, y: 0, width: box.width, height: CELL_HIGH, rx: 6}));
    let left = -box.width / 2 + 4;
    box.cells.forEach((cell, i) => {
      group.append(cellGroup(cell, left, node.values.length > 0, marks));
      for (const one of node.aggregates)
        if ((one.part === "suffix" || one.part === "prefix") && one.position === i) group.append(tick(one, left, cell.width, marks));
      left += cell.width;
    });
    if (node.coins) for (let i = 0; i < node.coins; ++i) group.append(element("circle", {class: "coin", cx: box.width / 2 - 5 - 10 * i, cy: 0, r: 4.5}));
    box.chips.forEach((one, i) => group.append(chip(one, 0, CELL_HIGH + 7 + 20 * i, marks)));
    if (node.folded) group.append(foldedGroup(node, CELL_HIGH + 8 + 20 * box.chips.length));
    if (node.level === 0 && (node.spine === "left" || node.spine === "right"))
      group.append(element("text", {class: "finger-name", x: 0, y: -6}, node.spine + " finger"));
    return group;
  }

  function cellGroup(cell, left, hasValue, marks) {
    const group = element("g", {class: "cell" + (marks.taken.has(cell.time) && hasValue ? " taken" : ""), "data-time": hasValue ? cell.time : null});
    const middle = left + cell.width / 2;
    group.append(element("rect", {x: left, y: 2, width: cell.width, height: CELL_HIGH - 4, rx: 4}));
    if (hasValue) group.append(element("text", {class: "value", x: middle, y: 17}, cell.value));
    group.append(element("text", {class: "key", x: middle, y: hasValue ? 29 : 22}, number(cell.time)));
    return group;
  }

  function aggregateGroup(one, marks, more) {
    const classes = ["aggregate", more, marks.fresh.has(one.name) ? "fresh" : "", marks.read.has(one.name) ? "read" : ""];
    return element("g", {class: classes.join(" "), "data-aggregate": one.name, "data-first": one.first, "data-last": one.last, "data-value": one.value, "data-part": one.part});
  }

  function chip(one, x, y, marks) {
    const text = short(one.value), part = PARTS[one.part];
    const wide = letters(text, 6.8) + 12 + (part ? 44 : 0), left = x - wide / 2;
    const group = aggregateGroup(one, marks, "");
    group.append(element("rect", {x: left, y, width: wide, height: 17, rx: 4}));
    if (part) group.append(element("text", {class: "part", x: left + 24, y: y + 12}, part));
    group.append(element("text", {x: x + (part ? 22 : 0), y: y + 12.5}, text));
    return group;
  }

  // A suffix or prefix aggregate of a finger: one below each entry, as in a stack.
  function tick(one, left, width, marks) {
    const group = aggregateGroup(one, marks, "tick");
    group.append(element("rect", {x: left + 2, y: CELL_HIGH - 1 + (one.part === "prefix" ? 0 : 0), width: width - 4, height: 7, rx: 2}));
    return group;
  }

  function foldedGroup(node, y) {
    const group = element("g", {class: "folded", "data-unfold": node.id});
    group.append(element("path", {d: `M0 ${y} L44 ${y + 42} L-44 ${y + 42} Z`}));
    group.append(element("text", {x: 0, y: y + 26}, node.folded.entries.toLocaleString("en")));
    group.append(element("text", {x: 0, y: y + 37}, "entries"));
    return group;
  }

  // --- queues ---------------------------------------------------------------------------------------------------

  // The parts of a queue: name, where it begins and ends, and whether aggregates reach to later entries or from earlier ones.
  const QUEUE_PARTS = {
    two_stacks: [["front", null, "back", "left"], ["back", "back", null, "right"]],
    daba: [["front", null, "l", "left"], ["front, to extend", "l", "r", "left"], ["old back, to turn round", "r", "a", "right"], ["turned round", "a", "b", "left"], ["back", "b", null, "right"]],
  };
  const ELEMENT = 66;

  function partOf(report, place) {
    const {cuts} = report.picture;
    return (QUEUE_PARTS[report.structure] || []).find(([, from, to]) => (from == null || place >= cuts[from]) && (to == null || place < cuts[to])) || ["", null, null, ""];
  }

  function queue(svg, report, wide) {
    const {elements} = report.picture, marks = marksOf(report), whole = element("g");
    const edge = Math.max(wide, 420) - MARGIN;
    let x = MARGIN, y = 30, last = null, part = null;
    for (const one of elements) {
      const next = partOf(report, one.place), jump = last != null && one.place !== last + 1;
      if (part && next !== part) x += 14;
      if (x + ELEMENT > edge) { x = MARGIN; y += 96; }
      if (next !== part || jump) whole.append(element("text", {class: "part-name", x, y: y - 9}, (jump ? "… " : "") + next[0]));
      whole.append(queueElement(one, x, y, next[3], marks));
      x += ELEMENT + 5;
      last = one.place;
      part = next;
    }
    x = MARGIN;
    for (const one of report.picture.totals) {  // of all of the back, and in DABA of what is being turned round
        const text = short(one.value, 16), width = Math.max(letters(text, 6.8) + 16, 60);
        const made = aggregateGroup(one, marks, "");
        made.append(element("rect", {x, y: y + 84, width, height: 17, rx: 4}));
        made.append(element("text", {x: x + width / 2, y: y + 96.5}, text));
        whole.append(element("text", {class: "part-name", x, y: y + 78}, one.part), made);
        x += width + 12;
    }
    const height = y + (report.picture.totals.length ? 112 : 78);
    svg.replaceChildren(whole);
    svg.setAttribute("viewBox", `0 0 ${edge + MARGIN} ${height}`);
    return {positions: new Map(), width: edge + MARGIN, height};
  }

  function queueElement(one, x, y, side, marks) {
    const group = element("g", {class: "node still " + side});
    group.style.transform = `translate(${x + ELEMENT / 2}px, ${y}px)`;
    group.append(element("rect", {class: "box", x: -ELEMENT / 2, y: 0, width: ELEMENT, height: CELL_HIGH, rx: 6}));
    group.append(cellGroup({time: one.time, value: short(one.value, 8), width: ELEMENT - 4}, -ELEMENT / 2 + 2, true, marks));
    if (one.aggregate) {
      const made = aggregateGroup(one.aggregate, marks, "");
      made.append(element("rect", {x: -ELEMENT / 2, y: CELL_HIGH + 7, width: ELEMENT, height: 17, rx: 4}));
      made.append(element("text", {x: 0, y: CELL_HIGH + 19.5}, short(one.aggregate.value, 9)));
      group.append(made);
    }
    return group;
  }

  return {element, tree, queue, number, short};
})();
