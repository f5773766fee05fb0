// The charts: combines of each operation, and what inserts cost at growing distances.
"use strict";

const Costs = (() => {
  const WIDE = 290, HIGH = 92, BAR = 4.6;
  const {element} = Draw;

  // One chart for each window, all with the same scale.
  function history(box, sides) {
    const single = (cost) => (cost.op === "fill" ? 0 : cost.update + cost.query);  // a fill would dwarf everything else
    const most = Math.max(8, ...sides.flatMap(({costs}) => costs.map(single)));
    box.replaceChildren(...sides.map(({name, costs, total}) => chart(name, costs, total, most)));
  }

  function chart(name, costs, total, most) {
    const figure = document.createElement("div");
    figure.className = "chart";
    const heading = document.createElement("h3");
    heading.textContent = `${name}: ${total.toLocaleString("en")} in total`;
    const svg = element("svg", {viewBox: `0 0 ${WIDE} ${HIGH}`, width: "100%", role: "img", "aria-label": `combines of the last ${costs.length} operations`});
    const floor = HIGH - 4, high = (count) => (Math.min(count, most) / most) * (HIGH - 18);
    if (!costs.length) svg.append(element("text", {x: 20, y: HIGH - 12}, "one bar for each operation"));
    svg.append(element("line", {class: "rule", x1: 0, x2: WIDE, y1: floor, y2: floor}));
    svg.append(element("text", {x: 0, y: 10}, String(most)));
    costs.forEach((cost, i) => {
      const x = 4 + i * BAR, update = high(cost.update), query = Math.min(high(cost.query), HIGH - 18 - update);
      const group = element("g", {"data-cost": i});
      group.append(element("title", {}, `${cost.title}: ${cost.update} to update, ${cost.query} to query`));
      if (cost.op === "fill") group.setAttribute("class", "many");
      group.append(element("rect", {class: "update", x, y: floor - update, width: BAR - 1, height: update}));
      group.append(element("rect", {class: "query", x, y: floor - update - query, width: BAR - 1, height: query}));
      svg.append(group);
    });
    figure.append(heading, svg);
    return figure;
  }

  function distances(box, sides) {
    const most = Math.max(1, ...sides.flatMap(({rungs}) => rungs.map((rung) => rung.looked || 0)));
    const table = document.createElement("table");
    const head = table.insertRow();
    for (const text of ["d", ...sides.flatMap(({name}) => [sides.length > 1 ? `nodes, ${name.split(",")[0]}` : "nodes", "combines"])]) {
      const cell = document.createElement("th");
      cell.textContent = text;
      head.append(cell);
    }
    sides[0].rungs.forEach((rung, i) => {
      const row = table.insertRow();
      row.insertCell().textContent = rung.distance;
      for (const side of sides) {
        const own = side.rungs[i] || {looked: null, combines: null};
        const cell = row.insertCell();
        cell.textContent = own.looked == null ? "refused" : own.looked;
        if (own.looked != null) {
          const meter = document.createElement("span");
          meter.className = "meter";
          meter.style.width = `${(own.looked / most) * (sides.length > 1 ? 26 : 90)}px`;
          cell.append(meter);
        }
        row.insertCell().textContent = own.combines == null ? "" : own.combines;
      }
    });
    box.replaceChildren(table);
  }

  return {history, distances};
})();
