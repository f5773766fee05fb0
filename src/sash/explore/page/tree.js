// Draws the structure of one window: a tree of nodes, or the elements of a queue.
"use strict";

const Draw = (() => {
  const NAMESPACE = "http://www.w3.org/2000/svg";
  const CELL_HIGH = 34, LEVEL = 92, GAP = 14, MARGIN = 22, MOST_LETTERS = 13;
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

  // Of a subtree that is not drawn, and that nothing happened to, only a triangle is left.
  const isPlain = (node, marks) =>
    node.folded && !node.spine && (marks.isFill || isUntouched(node, marks));
  const isUntouched = (node, marks) =>
    ![marks.changed, marks.created, marks.asked].some((marked) => marked.has(node.id)) && !marks.order.has(node.id)
      && !node.aggregates.some((one) => marks.fresh.has(one.name) || marks.read.has(one.name)) && !node.keys.some((time) => marks.taken.has(time));

  function boxOf(node, children, marks) {
    if (isPlain(node, marks)) return {node, cells: [], chips: [], width: 40, span: 40, children, plain: true, high: 46, x: 0, y: 0};
    const cells = cellsOf(node);
    const own = cells.reduce((sum, cell) => sum + cell.width, 0) || 24;
    const chips = node.aggregates.filter((one) => one.part !== "suffix" && one.part !== "prefix");
    const chip = Math.max(0, ...chips.map((one) => letters(short(one.value), 6.8) + 12 + (PARTS[one.part] ? 44 : 0)));
    const high = CELL_HIGH + 8 + 20 * chips.length + (node.folded ? 46 : 0);
    return {node, cells, chips, width: own + 8, span: Math.max(own + 8, chip, node.folded ? 88 : 0), high, children, x: 0, y: 0};
  }

  function layout(picture, marks) {
    const below = new Map(picture.nodes.map((node) => [node.id, []]));
    let root = null;
    for (const node of picture.nodes) {
      if (node.parent == null) root = node;
      else below.get(node.parent).push(node);
    }
    const build = (node) => boxOf(node, below.get(node.id).map(build), marks);
    const top = build(root), {left} = outline(top), levels = [];
    move(top, MARGIN - Math.min(...left));
    const boxes = [];
    (function collect(box, depth) {
      boxes.push(box);
      box.depth = depth;
      levels[depth] = Math.max(levels[depth] || 0, box.high);
      box.children.forEach((child) => collect(child, depth + 1));
    })(top, 0);
    const tops = levels.map((_, depth) => levels.slice(0, depth).reduce((y, high) => y + Math.max(LEVEL, high + 28), MARGIN));
    for (const box of boxes) box.y = tops[box.depth];
    const width = Math.max(...boxes.map((box) => box.x + box.span / 2)) + MARGIN;
    return {boxes, width, height: Math.max(...boxes.map((box) => box.y + box.high)) + 14};
  }

  // Put the children of a box side by side, as near as each level allows, and return where each level begins and ends.
  function outline(box) {
    const left = [], right = [];
    for (const child of box.children) {
      const own = outline(child), by = Math.max(0, ...own.left.map((x, depth) => (depth < right.length ? right[depth] + GAP - x : 0)));
      move(child, by);
      own.left.forEach((x, depth) => { left[depth] = left[depth] ?? x + by; });
      own.right.forEach((x, depth) => { right[depth] = x + by; });
    }
    const {children} = box;
    box.x = children.length ? (children[0].x + children[children.length - 1].x) / 2 : 0;
    return {left: [box.x - box.span / 2, ...left], right: [box.x + box.span / 2, ...right]};
  }

  function move(box, by) {
    box.x += by;
    box.children.forEach((child) => move(child, by));
  }

  // --- drawing --------------------------------------------------------------------------------------------------

  function tree(svg, report, known, coins) {
    const marks = marksOf(report);
    const {boxes, width, height} = layout(report.picture, marks);
    const edges = element("g"), nodes = element("g");
    for (const box of boxes)
      for (const child of box.children)
        edges.append(element("path", {class: "edge", d: `M${box.x} ${box.y + CELL_HIGH} L${child.x} ${child.y}`}));
    const now = new Map();
    for (const box of boxes) {
      const group = box.plain ? plainGroup(box) : nodeGroup(box, marks, coins);
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
    const query = report.query || {looked: [], changed: [], fresh: [], read: [], taken: [], asked: []};
    const isQuestion = report.operation && ["range", "query"].includes(report.operation.op);
    const isFill = report.operation !== null && report.operation.op === "fill";
    // Of a fill that does not fit the picture only some of the nodes are reported, and outlines would tell them apart.
    const isCut = isFill && report.picture.kind === "tree" && report.picture.nodes.some((node) => node.folded);
    const update = isCut ? {...report.update, looked: [], changed: [], created: [], fresh: []} : report.update;
    const changed = new Set([...update.changed, ...update.fresh.map(owner), ...(isQuestion ? [...query.changed, ...query.fresh.map(owner)] : [])]);
    return {
      isFill,
      changed,
      created: new Set(update.created),
      asked: new Set(isQuestion ? [...query.looked, ...query.asked] : []),
      order: new Map(isFill ? [] : update.looked.map((node, i) => [node, i + 1])),
      fresh: new Set([...update.fresh, ...query.fresh]),
      read: new Set(query.read),
      taken: new Set(query.taken),
    };
  }

  function plainGroup({node}) {
    return element("g", {class: "node", "data-node": node.id}, foldedGroup(node, 0, 20));
  }

  function nodeGroup(box, marks, coins) {
    const {node} = box, order = marks.order.get(node.id);
    const mark = ["created", "changed", "asked"].find((one) => marks[one].has(node.id)) || "";
    const group = element("g", {class: ["node", node.spine || "", mark, order ? "looked" : "", node.values.length ? "" : "inner-key"].join(" "), "data-node": node.id});
    group.append(element("rect", {class: "box", x: -box.width / 2, y: 0, width: box.width, height: CELL_HIGH, rx: 6}));
    let left = -box.width / 2 + 4;
    box.cells.forEach((cell, i) => {
      group.append(cellGroup(cell, left, node.values.length > 0, marks));
      for (const one of node.aggregates)
        if ((one.part === "suffix" || one.part === "prefix") && one.position === i) group.append(tick(one, left, cell.width, marks));
      left += cell.width;
    });
    if (coins && node.coins) for (let i = 0; i < node.coins; ++i) group.append(element("circle", {class: "coin", cx: box.width / 2 - 5 - 10 * i, cy: 0, r: 4.5}));
    box.chips.forEach((one, i) => group.append(chip(one, 0, CELL_HIGH + 7 + 20 * i, marks)));
    if (node.folded) group.append(foldedGroup(node, CELL_HIGH + 8 + 20 * box.chips.length, 44));
    if (order) {
      group.append(element("circle", {class: "order", cx: -box.width / 2, cy: 0, r: 8.5}));
      group.append(element("text", {class: "order-number", x: -box.width / 2, y: 3.8}, order));
    }
    if (node.level === 0 && (node.spine === "left" || node.spine === "right"))
      group.append(element("text", {class: "finger-name", x: 0, y: -12}, node.spine + " finger"));
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
    group.append(element("rect", {x: left + 2, y: CELL_HIGH - 1, width: width - 4, height: 7, rx: 2}));
    return group;
  }

  function foldedGroup(node, y, half) {
    const count = node.folded.entries + (half < 40 ? node.values.length : 0), group = element("g", {class: "folded", "data-unfold": node.id});
    group.append(element("title", {}, `${count.toLocaleString("en")} entries from ${number(node.first)} to ${number(node.last)}, not drawn`));
    group.append(element("path", {d: `M0 ${y} L${half} ${y + 42} L${-half} ${y + 42} Z`}));
    group.append(element("text", {x: 0, y: y + (half < 40 ? 36 : 26)}, count.toLocaleString("en")));
    if (half > 40) group.append(element("text", {x: 0, y: y + 37}, "entries"));
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
    let x = MARGIN, y = 30, last = null, part = null, named = 0;  // up to where the name of a part reaches
    for (const one of elements) {
      const next = partOf(report, one.place), jump = last != null && one.place !== last + 1;
      const name = next !== part || jump ? (jump ? "… " : "") + next[0] : "";
      if (part && next !== part) x = Math.max(x + 14, name ? named + 10 : 0);
      if (x + Math.max(ELEMENT, letters(name, 6.8)) > edge) { x = MARGIN; y += 96; named = 0; }
      if (name) {
        whole.append(element("text", {class: "part-name", x, y: y - 9}, name));
        named = x + letters(name, 6.8);
      }
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
