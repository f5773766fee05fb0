// The charts: what each operation cost, and what inserts cost at growing distances.
"use strict";

const Costs = (() => {
  const WIDE = 290, HIGH = 66, TOP = 14, BAR = 14;
  const {element} = Draw;
  const MEASURES = [["nodes touched", "touched", "query_touched"], ["combines", "update", "query"]];
  const one = (count) => (Math.round(count * 10) / 10).toLocaleString("en");

  function make(name, parent, text, className) {
    const made = document.createElement(name);
    if (text != null) made.textContent = text;
    if (className) made.className = className;
    parent.append(made);
    return made;
  }

  // Two charts for each window: nodes and combines. Those of two windows have the same scale.
  function history(box, sides) {
    const made = document.createDocumentFragment();
    const most = new Map(MEASURES.map(([what, own, query]) => {
      const single = (cost) => (cost.op === "fill" ? 0 : cost[own] + cost[query]);  // a fill would dwarf everything else
      return [what, Math.max(4, ...sides.flatMap(({costs}) => costs.map(single)))];
    }));
    for (const side of sides) {
      if (sides.length > 1) make("h3", made, side.name);
      for (const [what, own, query] of MEASURES)
        if (what === "combines" || side.nodes) made.append(chart(side, what, own, query, most.get(what)));
    }
    box.replaceChildren(made);
  }

  function chart({name, costs}, what, own, query, most) {
    const figure = document.createElement("div");
    figure.className = "chart";
    const svg = element("svg", {viewBox: `0 0 ${WIDE} ${HIGH}`, width: "100%", role: "img", "aria-label": `${what} of the last ${costs.length} operations, ${name}`});
    const floor = HIGH - 2, room = floor - TOP, high = (count) => (Math.min(count, most) / most) * room;
    const wide = Math.min(BAR, (WIDE - 4) / Math.max(costs.length, 1));
    svg.append(element("text", {class: "what", x: 0, y: 10}, what), element("text", {class: "most", x: WIDE, y: 10}, `highest bar: ${one(most)}`));
    svg.append(element("line", {class: "rule", x1: 0, x2: WIDE, y1: floor, y2: floor}));
    if (!costs.length) svg.append(element("text", {x: 4, y: floor - 8}, "one bar for each operation"));
    costs.forEach((cost, i) => {
      const x = 2 + i * wide, first = high(cost[own]), second = Math.min(high(cost[query]), room - first);
      const group = element("g", {"data-cost": i, class: cost.op === "fill" ? "many" : null});
      group.append(element("title", {}, `${cost.title}: ${cost[own].toLocaleString("en")} ${what}, ${cost[query].toLocaleString("en")} of the query`));
      group.append(element("rect", {class: "update", x, y: floor - first, width: wide * 0.8, height: first}));
      group.append(element("rect", {class: "query", x, y: floor - first - second, width: wide * 0.8, height: second}));
      svg.append(group);
    });
    figure.append(svg);
    return figure;
  }

  // --- distances ------------------------------------------------------------------------------------------------

  function distances(box, sides) {
    const made = document.createDocumentFragment();
    for (const sentence of verdicts(sides)) make("p", made, sentence, "verdict");
    const table = make("table", made), head = table.insertRow();
    for (const text of ["d", ...sides.flatMap(({name}) => [sides.length > 1 ? `nodes, ${name}` : "nodes", "combines"])]) make("th", head, text);
    const longest = sides.reduce((a, b) => (b.rungs.length > a.rungs.length ? b : a));
    const most = Math.max(1, ...sides.flatMap(({rungs}) => rungs.map((rung) => rung.looked || 0)));
    longest.rungs.forEach((rung, i) => {
      const row = table.insertRow();
      row.insertCell().textContent = rung.distance.toLocaleString("en");
      for (const side of sides) cells(row, side.rungs[i] || {}, most, sides.length > 1 ? 30 : 110);
    });
    box.replaceChildren(made);
  }

  function cells(row, {looked, combines}, most, wide) {
    const nodes = row.insertCell();
    nodes.className = "nodes";
    row.insertCell().textContent = combines == null ? "" : combines.toFixed(1);
    if (looked == null) return (nodes.textContent = "–");
    make("b", nodes, looked);
    make("span", nodes, null, "meter").style.width = `${(looked / most) * wide}px`;
  }

  // What the table says, from its numbers.
  function verdicts(sides) {
    const said = sides.flatMap(({name, rungs}) => (rungs.some((rung) => rung.refused) ? [`${name} refuses late entries: ${rungs.find((rung) => rung.refused).refused}`] : []));
    const known = sides.map(({name, entries, rungs}) => ({name, entries, looked: rungs.filter((rung) => rung.looked != null).map((rung) => rung.looked), rungs}));
    for (const side of known) if (side.looked.length > 2) said.push(growth(side));
    const [first, second] = known;
    if (second && first.looked.length > 2 && second.looked.length > 2) said.push(first.entries !== second.entries ? agreement(first, second) : race(first, second));
    return said.filter(Boolean);
  }

  function growth({name, looked, rungs}) {
    const late = looked.slice(1), least = Math.min(...looked), most = Math.max(...looked);
    if (most - least <= 1) return `${name}: ${least === most ? most : `${least} or ${most}`} nodes at every d.`;
    const each = (late[late.length - 1] - late[0]) / (late.length - 1);
    return `${name}: ${looked[0]} at d = 0, and each doubling of d adds about ${one(each)}: ${late[late.length - 1]} at d = ${rungs[looked.length - 1].distance.toLocaleString("en")}.`;
  }

  function agreement(first, second) {
    const apart = Math.max(...first.looked.slice(0, second.looked.length).map((count, i) => Math.abs(count - second.looked[i])));
    return `At the same d, the two windows differ by ${apart === 0 ? "nothing" : `${apart} at most`}.`;
  }

  function race(first, second) {
    if (first.looked[0] === second.looked[0]) return "";
    const [winner, loser] = first.looked[0] < second.looked[0] ? [first, second] : [second, first];
    const ahead = winner.looked.findIndex((count, i) => !(count < loser.looked[i]));
    if (ahead < 0) return `${winner.name} looks at fewer nodes than ${loser.name} at every d.`;
    return `${winner.name} looks at fewer nodes than ${loser.name} up to d = ${winner.rungs[ahead - 1].distance.toLocaleString("en")}: in order, and late by little. The larger the window, the larger is this d.`;
  }

  return {history, distances};
})();
